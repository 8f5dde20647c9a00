#!/usr/bin/env bash
# Set and solve a problem on a page of mathematics. The corpus is gated: accept its licence on the hub, and log in
# (hf auth login) on the machine that launches. Variables: see train.sh.
TASK=math_reasoning DOCUMENTS=nvidia/Nemotron-CC-Math-v1:3:train:text exec bash "$(dirname "$0")/train.sh" "$@"
