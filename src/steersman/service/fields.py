"""What the fields of bodies and answers mean, with their units, and which values they can have.

Long because every field of every record has its line.
"""

from __future__ import annotations

from steersman.policies.tabular import UCBQTablePolicy
from steersman.service.problems import CODES
from steersman.usecases.keys import SCOPES

__all__ = ["CHOICES", "HOW_CHANGED", "MEANINGS", "meaning_of"]

_AT = "in microseconds since 1970, UTC"
_VISITS = "How often it was chosen."
_UPDATES = "How often it was learned from."
_BORROWED = "The evidence that it started with: of a prior, a base or an import."

_EVERYWHERE = {
    "tenant": "The id of the tenant.",
    "version": "The number of the version.",
    "state": "The index of the state, from 0.",
    "action": "The action id.",
    "label": "What people call the action.",
    "decision_id": "The id of the decision.",
    "created_at": f"When it was made, {_AT}.",
    "q": "The value: what a reward is expected to be, in the unit of rewards.",
    "visits": _VISITS,
    "updates": _UPDATES,
    "borrowed": _BORROWED,
    "base": "The name of the base.",
    "name": "A name for people.",
}
"""The fields that mean the same in every schema that says nothing else of them."""

_LIST_OF_FEASIBLE = "of each feasible action, in the order of `feasible`"

MEANINGS: dict[str, dict[str, str]] = {
    # Bodies
    "DecideBody": {
        "state": "The state that the action is for: its index, or the value of each factor by the factor's name.",
        "tenant": "The tenant; a tenant's key need not name it, an operator's must.",
        "feasible": "The ids of the actions that may be played now; null for all.",
        "episode": "The episode that the decision belongs to, if any: its next step.",
        "decision_id": "An id of the caller's, which makes a retry safe; null lets the service name the decision.",
        "explore": "Whether to explore; false plays the best action that is known.",
        "metadata": "Anything of the caller's that is kept with the decision; decisions can be looked up by it.",
        "reasons": "Of actions that are left out of `feasible`: why, by action id, for whoever reads the log.",
    },
    "RewardBody": {
        "decision_id": "The decision that the reward is for.",
        "value": "The reward, within the tenant's `reward_range`.",
        "tenant": "The tenant; a tenant's key need not name it, an operator's must.",
        "reward_id": "An id of the caller's, needed for a further reward; null for the decision's own id.",
    },
    "CloseBody": {
        "outcome": "The reward of the whole episode, within the tenant's `reward_range`, if there is one.",
        "tenant": "The tenant; a tenant's key need not name it, an operator's must.",
    },
    "CloseItem": {
        "episode": "The episode to close.",
        "outcome": "The reward of the whole episode, within the tenant's `reward_range`, if there is one.",
        "tenant": "The tenant; a tenant's key need not name it, an operator's must.",
    },
    "FreezeBody": {"name": "The name that the copy is kept under; it is no number."},
    "RollBackBody": {
        "to": "The ancestor to go back to, by number or name; null for the parent of the active version."
    },
    "TenantBody": {"tenant": "The id of the new tenant.", "declaration": "What it declares."},
    "BaseBody": {"base": "The name of the new base.", "declaration": "What it declares."},
    "KeyBody": {
        "name": "A name for people, of at most 200 characters.",
        "scopes": "What the key may do; all of it where nothing is said.",
    },
    "OperatorKeyBody": {"name": "A name for people, of at most 200 characters."},
    "RotateBody": {"overlap": "For how many seconds the old key goes on beside the new one, up to a year."},
    # What is declared
    "TenantSpec": {
        "actions": "The catalogue, in order: a list of ids, a list of id and label, or a mapping of id to label.",
        "states": "The states: their number, or the factors that they are a product of.",
        "learning": "How values are learned.",
        "exploration": "How what is not known is tried.",
        "reward_range": "The lowest and the highest reward; [0, 1] by default.",
        "priors": "What is believed of actions before any evidence, by action id.",
        "base": "The name of the base that the tenant starts from; null for none.",
        "contributes": "Whether what the tenant learns goes into its base; false by default.",
        "borrow_cap": "How much evidence a cell borrows from the base at most, as so many observations; 20 by default.",
        "reward_wait": "Seconds after which what has no reward gets the default one; null for never.",
        "default_reward": "The reward that is given then; null where `reward_wait` is.",
    },
    "Learning": {
        "alpha": "The step size, above 0 and at most 1, or `1/n` (the default) for the mean of what was learned from.",
        "gamma": "The discount, from 0 to 1; 1 by default.",
        "lambda": "The trace decay, from 0 to 1; 0 by default.",
    },
    "Exploration": {
        "c": "The exploration constant of UCB, at least 0; the square root of 2 by default.",
        "epsilon": "The share of decisions that are drawn uniformly, from 0 to 1; 0.1 by default.",
    },
    "Prior": {
        "q": "The value that cells of the action start with.",
        "weight": "As how many observations it counts.",
    },
    "LabelledAction": {
        "id": "The action id, which learning is kept by; a number means its digits.",
        "label": "What people call the action; the id where nothing is said.",
    },
    "NumberOfStates": {"size": "How many states there are; they are known by index alone."},
    "FactoredStates": {"factors": "The factors, of which the last varies fastest."},
    "Factor": {
        "name": "The name of the factor.",
        "values": "Its values, in order; of bins, what each is called.",
        "edges": "For bins of a number: the edges between them, ascending; an edge belongs to the bin above it.",
        "before": "Of a factor that was added later: the value that all states had until then.",
    },
    "PolicySettings": {
        "learning": "How values are learned.",
        "exploration": "How what is not known is tried.",
        "reward_range": "The lowest and the highest reward.",
        "priors": "What is believed of actions before any evidence, by action id.",
    },
    # What was decided and learned
    "Decision": {
        "version": "The number of the version that decided.",
        "action": "The id of the action to play.",
        "propensity": "The probability with which the action was chosen, above 0 to 1.",
        "explored": "Whether the action is outside of the greedy set.",
        "explore": "What the caller asked for.",
        "epsilon": "The share of uniform choice that was played: 0 without exploration.",
        "c": "The exploration constant that was played.",
        "feasible": "The ids of the actions that were allowed, in the order of the catalogue.",
        "seen": "What was known of the feasible actions.",
        "episode": "The episode that it belongs to, if any.",
        "step": "Its position in the episode, from 0; null outside of episodes.",
        "metadata": "What the caller keeps with it.",
        "reasons": "Why actions were left out, by action id, where the caller said.",
        "status": "Whether it waits for its reward, was learned from, or was taken back.",
    },
    "SeenRow": {
        "q": f"The value {_LIST_OF_FEASIBLE}.",
        "visits": f"How often chosen: {_LIST_OF_FEASIBLE}.",
        "updates": f"How often learned from: {_LIST_OF_FEASIBLE}.",
        "borrowed": f"The evidence that it started with: {_LIST_OF_FEASIBLE}.",
    },
    "Reward": {
        "reward_id": "The id of the reward: the decision's own for its first one.",
        "value": "The reward.",
        "effect": "What it did: was `learned` at once, `waits` for more to be known, was a `further` reward that moved "
        "the value, or went to an older version that alone has the cell (`parked`).",
        "kind": "Whether a caller gave it, or it is the default that the tenant declares.",
    },
    "ClosedEpisode": {
        "episode": "The id of the episode.",
        "outcome": "The reward of the whole episode; null for none.",
        "decisions": "How many decisions it holds that were not taken back.",
        "learned": "How many of them were learned from at the close.",
        "kind": "Whether a caller closed it, or it had waited for as long as the tenant declares.",
        "closed_at": f"When it was closed, {_AT}.",
    },
    "Episode": {
        "episode": "The id of the episode.",
        "status": "Whether it goes on.",
        "steps": "How many decisions were made in it, those that were taken back included.",
        "opened_at": f"When its first decision was made, {_AT}.",
        "touched_at": f"When its latest decision or reward came, {_AT}.",
        "closed": "What its close did; null while it is open.",
    },
    "EpisodeDetail": {"episode": "The episode.", "decisions": "Its decisions, in the order of their steps."},
    "Explanation": {
        "decision": "The decision, as it was answered, and its status.",
        "meaning": "What the state means: the value of each factor.",
        "actions": "Every action of the catalogue as the decision saw it, in order.",
        "draw": "The number from 0 up to 1 that was drawn: where it falls among the summed probabilities decides.",
        "rewards": "The rewards that came.",
        "steps": "What was learned from it.",
    },
    "ExplainedAction": {
        "feasible": "Whether it was allowed.",
        "reason": "Why it was not, where the caller said.",
        "q": "Its value then; null where it was not feasible.",
        "visits": "How often it had been chosen; null where it was not feasible.",
        "updates": "How often it had been learned from; null where it was not feasible.",
        "borrowed": "The evidence that it had started with; null where it was not feasible.",
        "bonus": "What UCB added to the value; null without exploration, and while one without evidence comes first.",
        "greedy": "Whether it was among the best.",
        "probability": "The probability that it would be chosen; null where it was not feasible.",
        "chosen": "Whether it was chosen.",
    },
    "LearningStep": {
        "key": "The cell that was changed.",
        "number": "Which step of the cell it is, from 1.",
        "decision_id": "The decision that was learned from.",
        "kind": "Whether it counts as an update, or adds a further reward.",
        "reward": "The reward that was learned from.",
        "discount": "The discount, gamma, as it was then.",
        "bootstrap": "The value that the return goes on with; 0 at the end of an episode.",
        "target": "What the value was moved towards.",
        "step_size": "How far it was moved, as a share of the way.",
    },
    "CellKey": {},
    # Versions and what they hold
    "PolicyVersion": {
        "number": "Its number, which counts up within the tenant.",
        "kind": "The kind of the policy.",
        "status": "Whether it decides now, did once, or is kept under a name.",
        "name": "The name that it is kept under; null for none.",
        "states": "The states that it knows.",
        "actions": "The actions that it knows.",
        "settings": "How it learns and explores.",
        "parent": "The number of the version that it was made of; null for none.",
        "origin": "How it was made.",
        "provenance": "Where what it opened with came from.",
    },
    "VersionDetail": {
        "version": "The version.",
        "ancestors": "The numbers of its parent, the parent's parent and so on.",
        "cells": "How many cells have a row; the others are as they opened.",
        "visits": "How often an action was chosen, summed over its cells.",
        "updates": "How often was learned, summed over its cells.",
    },
    "LearnedTable": {
        "version": "The number of the version that is shown.",
        "states": "The states with the most evidence, these first.",
        "known_states": "How many states have any evidence.",
        "all_states": "How many states there are.",
        "never_tried": "The labels of actions that were played in no state.",
    },
    "LearnedState": {
        "meaning": "What the state means, in words.",
        "evidence": "Visits and borrowed evidence of its cells, summed.",
        "cells": "Every action of the catalogue, in order.",
    },
    "LearnedCell": {"greedy": "Whether it is played without exploration, when every action is feasible."},
    "Catalogue": {
        "actions": "The id and label of each action, in order.",
        "states": "The states: their number, or their factors.",
    },
    # What changes did
    "MigrationPlan": {
        "before": "The number of the version that was active until then; null before the first decide.",
        "version": "The number of the version that was made; null for a dry run, or when none is needed.",
        "needs_version": "Whether the change needs a new version.",
        "changed": "The parts of the declaration that differ.",
        "actions": "What becomes of actions.",
        "states": "What becomes of states.",
        "cells": "What becomes of cells; `new` counts the pairs of state and action that nothing is known of.",
        "remarks": "What should be known before the change is made, in words.",
    },
    "Fate": {
        "kept": "What stays where it is.",
        "moved": "What is kept at another position or index.",
        "new": "What was never known in this line of versions.",
        "parked": "What is left behind in the version before.",
        "restored": "What comes back from an older ancestor.",
    },
    "Group": {
        "count": "How many there are.",
        "shown": "All action ids, or the first twenty states or cells by their meaning.",
    },
    "Refresh": {
        "version": "The number of the active version.",
        "made": "Whether a version was made; not when the base had nothing new to lend.",
        "base_version": "The number of the version of the base.",
        "borrowed": "How many cells are borrowed now.",
        "dropped": "How many cells were borrowed before and are not any more.",
        "kept": "How many cells were left alone, since something was learned in them.",
    },
    "Expired": {
        "decisions": "How many decisions were given the default reward.",
        "episodes": "How many episodes were closed with it.",
    },
    "Erased": {"rows": "How many rows there were, by table."},
    "BaseBuild": {
        "version": "The number of the version of the base that was made.",
        "cells": "How many cells it holds.",
        "contributions": "Who gave how much, by tenant.",
    },
    "Contribution": {
        "version": "The number of the version that gave; null for none.",
        "cells": "How many cells it gave.",
        "updates": "How many updates these had.",
        "skipped": "Why it gave nothing; null where it gave.",
    },
    # Who there is
    "Owner": {
        "tenant": "The id of the tenant, or `@` and the name of the base.",
        "spec": "What it declares.",
        "status": "Whether it decides and changes.",
        "active_version": "The number of the version that decides; null before the first.",
        "latest_version": "The highest number of a version; 0 before the first.",
    },
    "ApiKey": {
        "key_id": "The public part of the key: 12 hexadecimal digits, which its text shows.",
        "tenant": "The tenant that it is of; null for a key of an operator.",
        "scopes": "What it may do.",
        "expires_at": f"When it ends, {_AT}; null for never.",
        "revoked_at": f"When it was revoked, {_AT}; null for not.",
        "last_used_at": f"When it was used last, {_AT}, give or take some seconds; null for never.",
    },
    "IssuedKey": {"key": "What is known of the key.", "text": "The key itself, which is shown this once."},
    "AuditLine": {
        "tenant": "The tenant that was changed, `@` and the name of a base, or `@` for operators.",
        "audit_id": "The id of the line.",
        "created_at": f"When it was changed, {_AT}.",
        "actor": "Who changed it: `key:` and the id of a key, `cli:` and a user, or `library`.",
        "verb": "What was done.",
        "detail": "What was before and after, and what else there is to say of it.",
    },
    # What was looked for
    "Checkup": {
        "tenants": "How many tenants were looked at.",
        "findings": "What was found, of the database first, then by tenant.",
    },
    "Finding": {
        "severity": "How bad it is.",
        "code": "Stable: what programs tell findings apart by.",
        "tenant": "The tenant that it is about; null for the database.",
        "message": "What was found, in words.",
        "command": "The command to go on with; null for none.",
    },
    "Verification": {
        "owners": "How many tenants and bases were verified.",
        "rows": "How many decisions, rewards, episodes, learning steps and cells were.",
        "count": "How many differences there are; 0 when all is well.",
        "differences": "The first thousand of them.",
    },
    "Difference": {
        "tenant": "The tenant, or `@` and the name of the base.",
        "subject": "What is stored otherwise than the log rebuilds it.",
        "record": "Its id; of a learning step its number, of a cell nothing.",
        "version": "The number of the version that it concerns; null for none.",
        "state": "The index of the state that it concerns; null for none.",
        "action": "The action id that it concerns; null for none.",
        "field": "The field that differs.",
        "stored": "What is stored; of bytes, hexadecimal digits.",
        "rebuilt": "What was rebuilt; of bytes, hexadecimal digits.",
    },
    "Status": {"status": "How the process is."},
    "Problem": {
        "type": "`urn:steersman:problem:` and the code.",
        "title": "What errors of this code have in common.",
        "status": "The status of the answer; of an item of a list, the one that it would have had alone.",
        "code": "Stable: what programs tell errors apart by.",
        "detail": "What was wrong here: what was expected, what came, where.",
        "hint": "The next thing to do, where there is one.",
        "request_id": "What the log has it under.",
        "stored_fingerprint": "Of `id-reused`: of the content that is stored under the id, hexadecimal.",
        "given_fingerprint": "Of `id-reused`: of the content that came now, hexadecimal.",
        "scope": "Of `forbidden`: the scope that is missing.",
        "retry_after": "Of `rate-limited` and `overloaded`: after how many seconds to come again.",
        "key_id": "Of `key-text-shown`: the key that the call made before.",
    },
}
"""What each field of each schema means."""

HOW_CHANGED = {
    "actions": "Replaced as a whole: what is not named is parked.",
    "states": "Replaced as a whole: what is not named is parked.",
    "learning": "Merged: the parts that are not given stay.",
    "exploration": "Merged: the parts that are not given stay.",
    "reward_range": "Replaced as a whole.",
    "priors": "Replaced as a whole: an action that is not named has none any more.",
    "base": "Replaced.",
    "contributes": "Replaced.",
    "borrow_cap": "Replaced.",
    "reward_wait": "Replaced.",
    "default_reward": "Replaced.",
}
"""What a change does to each part of a declaration that it names; the others stay as they are."""

CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("Decision", "status"): ("open", "learned", "void"),
    ("Reward", "effect"): ("learned", "waits", "further", "parked"),
    ("Reward", "kind"): ("reward", "default"),
    ("ClosedEpisode", "kind"): ("close", "default"),
    ("Episode", "status"): ("open", "closed"),
    ("LearningStep", "kind"): ("update", "further"),
    ("PolicyVersion", "kind"): (UCBQTablePolicy.kind,),
    ("PolicyVersion", "status"): ("active", "superseded", "frozen"),
    ("PolicyVersion", "origin"): ("empty", "warm_start", "migrated", "imported", "restored"),
    ("MigrationPlan", "changed"): (
        "actions",
        "labels",
        "states",
        "learning",
        "exploration",
        "reward_range",
        "priors",
        "base",
        "contributes",
        "borrow_cap",
        "reward_wait",
        "default_reward",
    ),
    ("Owner", "status"): ("active", "retired"),
    ("ApiKey", "scopes"): SCOPES,
    ("KeyBody", "scopes"): SCOPES,
    ("AuditLine", "verb"): (
        "activate",
        "archive",
        "build",
        "change",
        "create",
        "create key",
        "erase",
        "freeze",
        "grant",
        "import",
        "refresh",
        "retire",
        "revoke key",
        "roll_back",
        "rotate key",
        "start",
    ),
    ("Finding", "severity"): ("problem", "warning", "note"),
    ("Finding", "code"): (
        "action-rates",
        "missing-rewards",
        "never-tried",
        "old-sqlite",
        "reward-edges",
        "schema",
        "stale-episodes",
        "synchronous-commit",
        "ties",
        "unreadable",
    ),
    ("Difference", "subject"): (
        "archive",
        "archive file",
        "archived decision",
        "archived reward",
        "cell",
        "decision",
        "episode",
        "file",
        "reward",
        "step",
        "table",
        "tenant",
        "version",
    ),
    ("Status", "status"): ("alive", "ready"),
    ("Problem", "code"): CODES,
    ("Problem", "scope"): (*SCOPES, "operator"),
}
"""The values that a field can have, where these are a closed set."""


def meaning_of(schema: str, field: str) -> str:
    """Return what a field of a schema means; raise KeyError where that is not told."""
    return MEANINGS.get(schema, {}).get(field) or _EVERYWHERE[field]
