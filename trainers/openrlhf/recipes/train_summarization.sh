#!/usr/bin/env bash
# Summarize government reports in one paragraph (17,517 reports, no labels). Variables: see train.sh.
TASK=summarization DOCUMENTS=ccdv/govreport-summarization:document:train:report exec bash "$(dirname "$0")/train.sh" "$@"
