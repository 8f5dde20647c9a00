"""One seat of a game behind OpenEnv's protocol: the server of ``spyrl serve``, its models and a client."""
