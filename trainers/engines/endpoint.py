"""An OpenAI-compatible endpoint as an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any

from trainers.engines.protocol import Engine, Failed, Reply, Request

REFUSALS = (400, 413, 422)  # HTTP statuses of a request that can't be served, such as a prompt that is too long


class EndpointEngine(Engine):
    """Any OpenAI-compatible chat endpoint. It returns no token ids, so its replies can't be trained on.

    A prefill is left out, since the protocol has none: the replies' ``prefix`` is empty. Time-outs, 429, 5xx and cut
    connections are retried with growing pauses, at most ``retries`` times. A prompt's length isn't known here; the
    endpoint refuses prompts that are too long.
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
        """Connect to the endpoint at ``url``, such as ``http://localhost:8000/v1``; ``timeout`` in seconds per request.

        ``template_options`` go to the server's chat template. vLLM and SGLang take them, OpenAI's own servers refuse them.

        Raises:
            ValueError: the ``api`` extra isn't installed.
        """
        try:
            import openai
        except ImportError as error:
            raise ValueError("an endpoint needs the api extra: pip install -e '.[api]' in the checkout") from error
        # A body that isn't JSON raises a ValueError; JSON nested too deep, a RecursionError.
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
        """Yield each request's index and answer as they arrive; take a request from ``requests`` only when it is sent.

        A caller that stops iterating waits for the requests under way, at most ``concurrency``, and gets none of their
        answers. After Ctrl-C those answers are still yielded; then the interrupt is raised.
        """
        with ThreadPoolExecutor(self._concurrency) as pool:
            numbered, under_way = enumerate(requests), dict[Future[Reply | Failed], int]()
            interrupt: KeyboardInterrupt | None = None
            while True:
                # Fill the free threads, unless an interrupt says to send no more.
                for i, request in islice(numbered, 0 if interrupt else self._concurrency - len(under_way)):
                    under_way[pool.submit(self._one, request)] = i
                if not under_way:
                    break
                # Sleep until an answer arrives. The first Ctrl-C is kept for later, the second ends the wait.
                try:
                    done = wait(under_way, return_when=FIRST_COMPLETED).done
                except KeyboardInterrupt as error:
                    if interrupt:
                        raise
                    interrupt = error
                    continue
                # Hand over the answers; the caller may work for long between them, and the threads go on meanwhile.
                for future in done:
                    yield under_way.pop(future), future.result()
            if interrupt:
                raise interrupt

    def _one(self, request: Request) -> Reply | Failed:
        sampling = request.sampling
        # Sent only if set: OpenAI's protocol has neither of the last two, but servers of open models take both.
        optional = {
            "top_p": sampling.top_p if sampling.top_p < 1 else None,
            "top_k": sampling.top_k,
            "chat_template_kwargs": self._template_options,
        }
        try:
            answer = self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "user", "content": request.prompt}],
                max_tokens=sampling.max_new_tokens,
                temperature=0 if sampling.greedy else sampling.temperature,
                extra_body={name: value for name, value in optional.items() if value},
            )
        except self._errors as error:
            body = getattr(error, "body", None)
            # The client puts the body into the message of some errors, after a dash.
            detail = f" - {str(body)[:300]}" if body and " - " not in str(error) else ""
            refused = getattr(error, "status_code", None) in REFUSALS
            return Failed(f"{self._url}: {type(error).__name__}: {error}{detail}", refused)
        return self._read(answer)

    def _read(self, answer: Any) -> Reply | Failed:
        """Return the reply in an answer whose types the client hasn't checked."""
        choices = getattr(answer, "choices", None)
        first = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(first, "message", None)
        text, truncated = getattr(message, "content", None), getattr(first, "finish_reason", None) == "length"
        if text is None and message is not None and truncated:
            text = ""  # from servers that keep thinking apart, if the tokens run out before the answer begins
        if not isinstance(text, str):
            return Failed(f"{self._url}: the answer holds no text: {str(answer)[:200]!r}")
        return Reply(text, truncated=truncated, usage=_usage(answer))


def _usage(answer: Any) -> tuple[int, int] | None:
    """Return the tokens of prompt and reply that an endpoint counted."""
    usage = getattr(answer, "usage", None)
    prompt, reply = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    return (prompt, reply) if isinstance(prompt, int) and isinstance(reply, int) else None


def _deadline(seconds: float) -> Callable[[Any], None]:
    """Make a hook of the HTTP client that bounds the reading of a whole answer; its own time-out is per chunk."""

    def bound(response: Any) -> None:
        chunks, deadline = response.iter_raw, time.monotonic() + seconds

        def until_the_deadline(*args: Any) -> Iterator[bytes]:
            for chunk in chunks(*args):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the answer takes longer than {seconds} s")
                yield chunk

        response.iter_raw = until_the_deadline

    return bound
