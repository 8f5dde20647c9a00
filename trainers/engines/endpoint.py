"""An OpenAI-compatible endpoint as an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any

from trainers.engines.protocol import Failed, Reply, Request

REFUSALS = (400, 413, 422)  # HTTP: such as a prompt that is too long


class EndpointEngine:
    """Any OpenAI-compatible chat endpoint. It tells no token ids, so its replies can't be trained on.

    A prefill is left out, since the protocol has none: the replies' ``prefix`` is empty. Time-outs, 429, 5xx and cut
    connections are retried with growing pauses, at most ``retries`` times.
    """

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str = "none",
        timeout: float = 120.0,
        retries: int = 3,
        concurrency: int = 16,
        template_options: dict[str, Any] | None = None,
    ) -> None:
        """Talk to the endpoint at ``url`` (such as ``http://localhost:8000/v1``). ``timeout`` in seconds, for one request.

        ``template_options`` go to the server's chat template, which vLLM's and SGLang's take and OpenAI's own refuses.

        Raises:
            ValueError: the ``api`` extra isn't installed.
        """
        try:
            import openai
        except ImportError as error:
            raise ValueError("an endpoint needs the api extra: pip install 'spy-env[api]'") from error
        self._errors: tuple[type[Exception], ...] = (openai.OpenAIError, TimeoutError, ValueError, RecursionError)
        self._client = openai.OpenAI(
            base_url=url,
            api_key=api_key or "none",
            timeout=timeout,
            max_retries=retries,
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [_deadline(timeout)]}),
        )
        self._model, self._concurrency, self._url = model, concurrency, url
        self._template_options = template_options or {}

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        """Send all requests, ``concurrency`` at a time."""
        answers = dict(self.as_answered(requests))
        return [answers[i] for i in range(len(requests))]

    def as_answered(self, requests: Iterable[Request]) -> Iterator[tuple[int, Reply | Failed]]:
        """Each request's place and answer, as they come; a request is taken from ``requests`` when it is its turn.

        Whoever stops iterating waits for what is under way, at most ``concurrency`` answers, and gets none of them. After
        Ctrl-C they are waited for, too, and come; then it is raised.
        """
        with ThreadPoolExecutor(self._concurrency) as pool:
            numbered, going = enumerate(requests), dict[Future[Reply | Failed], int]()
            stopped: KeyboardInterrupt | None = None
            while True:
                for i, request in islice(numbered, 0 if stopped else self._concurrency - len(going)):
                    going[pool.submit(self._one, request)] = i
                if not going:
                    break
                try:
                    done = wait(going, return_when=FIRST_COMPLETED).done
                except KeyboardInterrupt as error:
                    if stopped:
                        raise
                    stopped = error
                    continue
                for future in done:
                    yield going.pop(future), future.result()
            if stopped:
                raise stopped

    def _one(self, request: Request) -> Reply | Failed:
        sampling = request.sampling
        only_if_asked: dict[str, Any] = {"top_p": sampling.top_p} if sampling.top_p < 1 else {}
        # No part of OpenAI's protocol; servers of open models take both.
        beyond = {"top_k": sampling.top_k, "chat_template_kwargs": self._template_options}
        if any(beyond.values()):
            only_if_asked["extra_body"] = {name: value for name, value in beyond.items() if value}
        try:
            answer: Any = self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "user", "content": request.prompt}],
                max_tokens=sampling.max_new_tokens,
                temperature=0 if sampling.greedy else sampling.temperature,
                **only_if_asked,
            )
        except self._errors as error:  # also JSON that isn't (a ValueError) or is too deep
            body = getattr(error, "body", None)
            said = (
                f" - {str(body)[:300]}" if body and " - " not in str(error) else ""
            )  # the client shows one form of it
            refused = getattr(error, "status_code", None) in REFUSALS
            return Failed(f"{self._url}: {type(error).__name__}: {error}{said}", refused)
        return self._read(answer)

    def _read(self, answer: Any) -> Reply | Failed:
        choices: Any = getattr(answer, "choices", None)
        first = choices[0] if isinstance(choices, list) and choices else None  # the client checks no types
        message = getattr(first, "message", None)
        text, truncated = getattr(message, "content", None), getattr(first, "finish_reason", None) == "length"
        if text is None and message is not None and truncated:
            text = ""  # servers that keep thinking apart tell it so where the tokens end before the answer begins
        if not isinstance(text, str):
            return Failed(f"{self._url}: the answer holds no text: {str(answer)[:200]!r}")
        return Reply(text, truncated=truncated, usage=_usage(answer))

    def count_tokens(self, prompt: str, prefill: str) -> int:
        """Unknown here; the endpoint refuses what is too long."""
        return 0


def _usage(answer: Any) -> tuple[int, int] | None:
    """The tokens of prompt and reply that an endpoint says it counted."""
    told = getattr(answer, "usage", None)
    prompt, reply = getattr(told, "prompt_tokens", None), getattr(told, "completion_tokens", None)
    return (prompt, reply) if isinstance(prompt, int) and isinstance(reply, int) else None


def _deadline(seconds: float) -> Callable[[Any], None]:
    """A hook of the HTTP client that bounds the reading of a whole answer; its own time-out is for each piece of it."""

    def bound(response: Any) -> None:
        pieces, ends = response.iter_raw, time.monotonic() + seconds

        def until_the_end(*args: Any) -> Iterator[bytes]:
            for piece in pieces(*args):
                if time.monotonic() > ends:
                    raise TimeoutError(f"the answer takes longer than {seconds} s")
                yield piece

        response.iter_raw = until_the_end

    return bound
