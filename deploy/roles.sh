#!/bin/sh
# Makes the roles and the database. The image of PostgreSQL runs it once, as the superuser, on an empty volume.
set -eu
psql --set ON_ERROR_STOP=1 --no-psqlrc --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv owner OWNER_PASSWORD
\getenv serving SERVING_PASSWORD
\getenv operator OPERATOR_PASSWORD
-- It owns the tables and upgrades them; the other two get what `steersman db grant` gives them, and no more.
CREATE ROLE steersman_owner LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD :'owner';
CREATE ROLE steersman_serving LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD :'serving';
CREATE ROLE steersman_operator LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD :'operator';
CREATE DATABASE steersman OWNER steersman_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE steersman FROM PUBLIC;
GRANT CONNECT ON DATABASE steersman TO steersman_serving, steersman_operator;
SQL
