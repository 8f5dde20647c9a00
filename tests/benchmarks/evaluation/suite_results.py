"""Results made by hand, as suites give them."""

from benchmarks.evaluation.results import Results, Score

ABOUT = {
    "model": {"name": "models/ours", "fingerprint": "sha256:1", "max_len": 16384},
    "base": {"name": "Qwen/Qwen3-4B", "fingerprint": "sha256:2", "max_len": 16384},
    "judge": "http://judge/v1:gpt",
    "seed": 0,
    "limit": None,
    "versions": {"python": "3.11", "rouge": "1.0.1"},
}


def score(set, metric, who, value, counts=None, percent=True, half=0.02, n=200):
    return Score(set, metric, who, value, value - half, value + half, n, "bootstrap over items", counts or {}, percent)


def summarization():
    rouge, google = "rouge-l F (rouge 1.0.1{})", "rougeL F (rouge-score 0.1.2, no stemmer{})"
    scores = []
    for name, words, shots in (
        ("govreport", "", ""),
        ("vcsum", ", jieba's words for Chinese", ""),
        ("samsum", "", ", few-shot"),
    ):
        for metric in (rouge.format(words) + shots, google.format(words) + shots):
            scores += [
                score(name, metric, "model", 0.34, {"shortened": 3}),
                score(name, metric, "base", 0.3, {"shortened": 3, "empty": 1}),
                score(name, metric, "lead baseline", 0.25),
                score(name, f"{metric}, difference", "model against base", 0.04),
            ]
        for rate, value in (("win rate", 0.7), ("length-controlled win rate", 0.65), ("flips", 0.1)):
            scores.append(score(name, f"{rate}, overall", "model against base", value))
    return Results("summarization", scores, {"prompts": "our own", "decoding": {"govreport": "greedy"}}, ["a note"])


def alignment():
    scores = [score("summarization", "games: spy alone most voted", "model", 0.4, {"abstentions": 7})]
    for name in ("summarization", "creative_writing"):
        scores.append(
            score(name, "judge's ranking: Spearman of votes and rank, pooled within games", "model", 0.2, {}, False)
        )
        for votes, rank in ((0, 2.8), (1, 3.0), (2, 3.4)):
            metric = f"judge's ranking: mean rank, {votes} vote{'' if votes == 1 else 's'}"
            scores.append(score(name, metric, "model", rank, {}, False, half=0.3, n=100))
        scores.append(score(name, "judge's ranking: most voted is ranked worst", "model", 0.3))
    return Results("alignment", scores, {"games": "saved"}, [])
