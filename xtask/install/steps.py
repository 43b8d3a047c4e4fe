"""Runs the commands of action.yml, or of templates/millstream.yml, in the current folder.

usage: steps.py FILE TEMP [INPUT=VALUE...]

Steps that use other actions, caches and artefacts are left out. TEMP is the runner's temporary
folder.
"""

import os
import re
import subprocess
import sys

import yaml


def inputs_of(declared, given):
    unknown = set(given) - set(declared)
    missing = {name for name, one in declared.items() if "default" not in one} - set(given)
    if unknown or missing:
        sys.exit(f"unknown inputs: {unknown}, missing ones: {missing}")
    defaults = {name: one.get("default") for name, one in declared.items()}
    texts = {True: "true", False: "false"}
    return {name: texts.get(one, one) for name, one in (defaults | given).items()}


def bash(script, variables):
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    status = subprocess.run(command, env=os.environ | variables).returncode
    if status != 0:
        sys.exit(status)


def github(action, temp, given):
    values = {f"inputs.{name}": one for name, one in inputs_of(action["inputs"], given).items()}
    values["runner.temp"] = temp
    for step in action["runs"]["steps"]:
        if "run" not in step:
            print(f"left out: {step['uses']}")
            continue
        variables = {
            name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], one)
            for name, one in step.get("env", {}).items()
        }
        assert "${{" not in step["run"], "an input in a script would be run as code"
        bash(step["run"], variables | {"RUNNER_TEMP": temp})


def gitlab(header, jobs, given):
    values = inputs_of(header["spec"]["inputs"], given)
    (job,) = jobs.values()
    os.environ["CI_PROJECT_DIR"] = os.getcwd()
    variables = {
        name: os.path.expandvars(re.sub(r"\$\[\[ inputs\.(.*?) \]\]", lambda found: values[found[1]], one))
        for name, one in job["variables"].items()
    }
    bash("\n".join(job["script"]), variables)


def main():
    path, temp, *given = sys.argv[1:]
    given = dict(word.split("=", 1) for word in given)
    with open(path) as file:
        documents = list(yaml.safe_load_all(file))
    if len(documents) == 1:
        github(documents[0], temp, given)
    else:
        gitlab(*documents, given)


main()
