#!/usr/bin/env bash
# The published settings, which the three recipes share. Not a recipe by itself.
#
# MODEL    Qwen/Qwen3-8B (default) or Qwen/Qwen3-4B-Instruct-2507, or any other chat model
# PLAYERS  5 (default): 104 documents x 10 samples per iteration; 4: 128 x 8. Both are about 1,024 samples, one update
# NODES    1 (default); GPUS per node: 8 (default)
# LORA     a rank: train adapters on one GPU, with spyrl train, as OpenRLHF 0.11.2 can't hand them to its engines
# Further arguments go to the command: --dry-run, --ckpt.load_enable, --ray.address http://HEAD:8265, any other flag.
set -euo pipefail
: "${TASK:?run one of train_summarization.sh, train_creative_writing.sh, train_math_reasoning.sh}" "${DOCUMENTS:?}"
MODEL=${MODEL:-Qwen/Qwen3-8B} PLAYERS=${PLAYERS:-5} NODES=${NODES:-1} GPUS=${GPUS:-8} LORA=${LORA:-}

case $PLAYERS in # samples are seats: 128 x 8 is no multiple of 5 players
    4) batch=128 samples=8 ;;
    5) batch=104 samples=10 ;;
    *) echo "PLAYERS is $PLAYERS; 4 or 5 were published" >&2 && exit 2 ;;
esac

# Qwen3-8B doesn't think: the published scores of the untrained models are those without thinking, and 4,096 tokens are too
# few to think in. (Qwen3-4B-Instruct-2507 never thinks; its chat template doesn't know the switch.)
# Published are replies of 4,096 tokens within 16,384, and vote prompts that turn out longer are cut. Here no prompt is ever
# cut, so there is room for a ballot of performances of 2,048 tokens each; a document then has some 9,800 tokens (5 players).
published=(
    --game.task "$TASK" --game.players "$PLAYERS" --data.documents "$DOCUMENTS"
    --actor.model_name_or_path "$MODEL" --rollout.chat_template_kwargs '{"enable_thinking": false}'
    --rollout.batch_size $batch --rollout.n_samples_per_prompt $samples
    --data.max_len 24576 --rollout.max_new_tokens 4096 --rollout.performing.max_new_tokens 2048 --rollout.temperature 1
    --train.iterations 100 --actor.adam.lr 1e-6 --actor.eps_clip 0.2 --algo.kl.init_coef 0.001
    --actor.gradient_checkpointing_enable --vllm.gpu_memory_utilization 0.45
    --eval.games 32 --eval.steps 10 --ckpt.output_dir "outputs/$TASK"
)
if [[ -n $LORA ]]; then
    exec spyrl train "${published[@]}" --ds.lora.rank "$LORA" --ds.lora.alpha $((2 * LORA)) --rollout.engine vllm "$@"
fi

# Ours: one engine per GPU (published: one over all eight), and micro-batches by tokens, one longest sample at a time.
on_gpus=(
    --actor.num_nodes "$NODES" --actor.num_gpus_per_node "$GPUS"
    --train.colocate_all --vllm.enable_sleep --ds.enable_sleep
    --ds.zero_stage 3 --ref.offload --ds.packing_samples
    --train.dynamic_batch_enable --train.max_tokens_per_gpu 24576 --rollout.max_tokens_per_gpu 49152
)
exec spyrl openrlhf "${published[@]}" "${on_gpus[@]}" "$@"
