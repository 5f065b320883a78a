"""Files as people have them: comments anywhere, both line ends, tabs, a byte order mark, no line end at the end."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from wakeline.connect.jsonc import BOM

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)
COMMENT_WORDS = WORDS.map(lambda text: text.replace("*/", "").replace("/*", ""))


def comments(newline: str) -> st.SearchStrategy[str]:
    return st.one_of(
        st.just(""),
        st.just(" "),
        st.just(newline),
        st.just(f"{newline}\t"),
        COMMENT_WORDS.map(lambda text: f" // {text}{newline}  "),
        COMMENT_WORDS.map(lambda text: f" /* {text} */ "),
    )


@st.composite
def json_values(draw: st.DrawFn, newline: str, depth: int) -> str:
    kind = draw(st.sampled_from(["scalar", "list", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        scalars = st.one_of(
            WORDS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)
        )
        return json.dumps(draw(scalars), ensure_ascii=draw(st.booleans()), allow_nan=False)
    if kind == "list":
        items = [draw(json_values(newline, depth - 1)) for _ in range(draw(st.integers(0, 3)))]
        return draw(containers("[", items, "]", newline))
    return draw(json_objects(newline, depth))


@st.composite
def json_objects(draw: st.DrawFn, newline: str, depth: int) -> str:
    names = st.one_of(st.sampled_from(["mcp", "hooks", "permissions", "allow", "wakeline", "a"]), WORDS)
    gap = comments(newline)
    keys = draw(st.lists(names, max_size=4))
    members = [
        f"{json.dumps(key, ensure_ascii=False)}{draw(gap)}:{draw(gap)}{draw(json_values(newline, depth - 1))}"
        for key in keys
    ]
    return draw(containers("{", members, "}", newline))


@st.composite
def containers(draw: st.DrawFn, opening: str, items: list[str], closing: str, newline: str) -> str:
    gap = comments(newline)
    parts = [f"{draw(gap)}{item}{draw(gap)}" for item in items]
    trailing = draw(st.sampled_from(["", ","])) if parts else ""
    return f"{opening}{','.join(parts)}{trailing}{draw(gap)}{closing}"


@st.composite
def json_files(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from(["", BOM]))
    gap = comments(newline)
    if draw(st.integers(0, 9)) == 0:
        return mark + draw(gap)
    return f"{mark}{draw(gap)}{draw(json_objects(newline, 3))}{draw(gap)}"


TABLES = (
    '[model_providers.stub]\nbase_url = "http://127.0.0.1"  # here',
    '[mcp_servers.other]\ncommand = "/bin/true"\nargs = [\n  "a", # one\n]',
    '[ mcp_servers . other . env ]\nA = "b"\n# of b',
    "[mcp_servers]",
    '[[things]]\ntext = """\n[not a table]\n[mcp_servers]\n"""\n\n[[things]]\nx = 1',
    "[numbers]\nlimit = nan\nhuge = 1e400\n\n",
    "# a comment, 💡 and 'quotes'",
    "",
)


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    head = draw(st.sampled_from(["", "# first\n", 'model = "stub"\nlist = [[1],\n[2]]\n']))
    tables = draw(st.permutations(TABLES))[: draw(st.integers(0, len(TABLES)))]
    end = draw(st.sampled_from(["", "\n", "\n\n\n"]))
    text = head + "\n".join(tables) + end
    return draw(st.sampled_from(["", BOM])) + text.replace("\n", newline)
