"""A stand-in for a model, on loopback: it answers real harnesses with what a test wrote, and keeps what they asked.

    with ModelServer() as model:
        model.script("list the files", Shell("ls"), Say("that is all"))
        ...                                   # start a harness whose model is at `model.url`, type "list the files"
        request = model.wait("list the files")

It speaks Anthropic Messages, OpenAI Responses and OpenAI chat completions, streaming or not.  It understands nothing.
"""

from wakeline.testing.model.replies import Fail, Reply, Say, Shell, Use
from wakeline.testing.model.request import Request
from wakeline.testing.model.server import ModelServer

__all__ = ["Fail", "ModelServer", "Reply", "Request", "Say", "Shell", "Use"]
