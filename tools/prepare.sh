#!/usr/bin/env bash
# Creates the virtual environment with everything that building, testing and the demo need.
#
#   tools/prepare.sh DIR        DIR: the environment's folder, usually .venv
#
# Needs Python 3.11 or newer ($PYTHON, default python3). On Debian the module that creates environments is in a separate
# package. If it is missing, the script installs it, or prints the command to run if it may not.
set -euo pipefail

venv=${1:?usage: tools/prepare.sh DIR}
python=${PYTHON:-python3}
cd "$(dirname "$0")/.."

fail() {
    echo "prepare: $*" >&2
    exit 4
}

install_debian_packages() {
    command -v apt-get >/dev/null || fail "$python cannot create virtual environments; install its venv module"
    local sudo=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || fail "please run: sudo apt-get install $*"
        sudo=(sudo -n)
    fi
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

command -v "$python" >/dev/null || install_debian_packages python3 python3-venv
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than Python 3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null || install_debian_packages python3-venv

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
