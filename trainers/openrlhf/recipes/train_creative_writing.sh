#!/usr/bin/env bash
# Write short stories to prompts (272,600 prompts; the stories aren't read). Variables: see train.sh.
TASK=creative_writing DOCUMENTS=euclaise/writingprompts:default:train:prompt exec bash "$(dirname "$0")/train.sh" "$@"
