"""Pages made from the code: every command with its flags, every setting, the Python package."""

import ast
import re

COMMANDS = "reference/commands"
# The pages of the Python package: their titles, what they are about, and their names.
PYTHON = [
    ("VaDE", ["pervade.VaDE"], "vade"),
    ("Reports and warnings", ["pervade.Report", "pervade.FitWarning"], "report"),
    ("pervade.datasets", ["pervade.datasets"], "datasets"),
    ("pervade.anndata", ["pervade.anndata"], "anndata"),
    ("pervade.arrow", ["pervade.arrow"], "arrow"),
]


def write(definitions, package, pages):
    """Writes the pages and returns their part of the navigation."""
    (pages / COMMANDS).mkdir(parents=True)
    (pages / "reference/python").mkdir()
    (pages / COMMANDS / "index.md").write_text(command_list(definitions))
    for command in definitions["commands"]:
        (pages / COMMANDS / f"{command['name']}.md").write_text(command_page(command))
    (pages / "reference/settings.md").write_text(settings_page(definitions, chosen_from_data(package)))
    for title, objects, name in PYTHON:
        (pages / f"reference/python/{name}.md").write_text(python_page(title, objects, package))
    commands = [{c["name"]: f"{COMMANDS}/{c['name']}.md"} for c in definitions["commands"]]
    return [
        {"Commands": [f"{COMMANDS}/index.md", *commands]},
        {"Settings": "reference/settings.md"},
        {"Python": [{title: f"reference/python/{name}.md"} for title, _, name in PYTHON]},
    ]


def prose(text):
    """Plain text with code in backticks as Markdown for a cell of a table."""
    parts = re.split(r"(`[^`]*`)", " ".join((text or "").split()))
    escaped = [part if part.startswith("`") else re.sub(r"([\\*_<|\[\]])", r"\\\1", part) for part in parts]
    return "".join(part.replace("|", r"\|") if part.startswith("`") else part for part in escaped)


def sentence(text):
    text = prose(text)
    return text if not text or text.endswith((".", "?")) else text + "."


def table(head, rows):
    return "\n".join(["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]) + "\n"


def code(text):
    return f"`{text}`"


def spelling(argument):
    """An argument as it is typed."""
    value = argument["value"]
    if not argument["long"]:
        return code(value if argument["required"] else f"[{value}]")
    flag = f"--{argument['long']}" + (f" {value}" if value else "")
    return code(f"-{argument['short']}") + ", " + code(flag) if argument["short"] else code(flag)


def meaning(argument):
    """What an argument does, its values and its default."""
    stated = re.search(r"^(.*?) \[default: (.*)\]$", argument["help"] or "", re.DOTALL)
    text, default = stated.groups() if stated else (argument["help"], argument["default"])
    said = sentence(text)
    if argument["values"]:
        said += " One of " + ", ".join(code(value) for value in argument["values"]) + "."
    return said + (f" Default: {prose(default)}." if default else "")


def arguments(listed, depth="##"):
    """Tables of arguments by heading."""
    groups = {}
    for argument in listed:
        heading = argument["heading"] or ("Flags" if argument["long"] else "Arguments")
        groups.setdefault(heading, []).append(argument)
    made = []
    for heading, group in groups.items():
        rows = [[spelling(argument), meaning(argument)] for argument in group]
        made.append(f"{depth} {heading}\n\n" + table(["argument" if heading == "Arguments" else "flag", "meaning"], rows))
    return "\n".join(made)


def notes(text):
    """The end of a help text: examples as a block of commands, the rest as it is."""
    made = []
    for part in (text or "").split("\n\n"):
        heading, _, rest = part.partition("\n")
        if heading in ("Example:", "Examples:"):
            lines = [re.split(r"\s{3,}", line.strip(), maxsplit=1) for line in rest.split("\n")]
            shown = ["$ " + "   # ".join(line) for line in lines]
            made.append("## " + heading.rstrip(":") + "\n\n```console\n" + "\n".join(shown) + "\n```\n")
        elif heading.endswith(":") and all(line.startswith("  ") for line in rest.split("\n") if line):
            rows = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in rest.split("\n") if line]
            made.append(f"## {heading.rstrip(':')}\n\n" + table(["name", "what it is"], [[code(name), sentence(said)] for name, said in rows]))
        elif part:
            made.append(sentence(part) + "\n")
    return "\n".join(made)


def command_page(command):
    """The page of one command."""
    made = [f"# pervade {command['name']}\n", sentence(command["about"]) + "\n"]
    made += [f"```text\n{command['usage']}\n```\n", notes(command["notes"]), arguments(command["arguments"])]
    for inner in command["commands"]:
        made += [f"## {command['name']} {inner['name']}\n", sentence(inner["about"]) + "\n", f"```text\n{inner['usage']}\n```\n"]
        made += [notes(inner["notes"]).replace("## ", "### "), arguments(inner["arguments"], "###")]
    made.append("The flags of [every command](index.md#flags-of-every-command), such as `--json` and `--device`, are not repeated here.\n")
    return "\n".join(part for part in made if part)


def command_list(definitions):
    """The page of all commands."""
    rows = [[f"[{c['name']}]({c['name']}.md)", sentence(c["about"])] for c in definitions["commands"]]
    everywhere = [[spelling(argument), meaning(argument)] for argument in definitions["everywhere"]]
    return "\n".join([
        "# Commands\n",
        sentence(definitions["about"]) + "\n",
        "`pervade COMMAND --help` shows the same as these pages. Results go to stdout, messages to stderr; the exit status is 0 for "
        "success, 1 if a check that was asked for failed, 2 if the command could not run.\n",
        table(["command", "what it does"], rows),
        "## Flags of every command\n",
        table(["flag", "meaning"], everywhere),
    ])  # fmt: skip


def class_of(package, name):
    """The definition of a class of the package, or None."""
    for path in sorted(package.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node
    return None


def methods(package, name):
    """The public methods of a class of the package and those that it inherits within it, its own first."""
    node = class_of(package, name)
    if node is None:
        return []
    own = [member.name for member in node.body if isinstance(member, ast.FunctionDef) and not member.name.startswith("_")]
    inherited = [method for base in node.bases if isinstance(base, ast.Name) for method in methods(package, base.id)]
    return list(dict.fromkeys(own + inherited))


def chosen_from_data(package):
    """How values are chosen from the data, by setting: the brackets in the docstring of the estimator."""
    text = ast.get_docstring(class_of(package, "VaDE"))
    entries = re.findall(r"^(\w+) : [^\n]*\n((?:    [^\n]*\n)+)", text, re.MULTILINE)
    found = {}
    for name, body in entries:
        if bracket := re.search(r"\[([^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\]\s*$", " ".join(body.split())):
            found[name.removeprefix("n_")] = bracket.group(1)
    return found


def value(setting):
    """The type of a setting."""
    names = " or ".join(code(f'"{name}"') for name in setting["values"])
    return names or setting["type"].replace('"auto"', '`"auto"`')


def default(setting, chosen):
    """The default of a setting, and its value in the recipe of the paper."""
    robust, paper = setting["default"], setting["paper"]
    if robust is None:
        return "Must be given"
    said = f"Default: {code(robust)}"
    if robust == "from the data":
        said = "Default: from the data" + (f" ({prose(chosen[setting['key']])})" if setting["key"] in chosen else "")
    return said if robust == paper else f"{said}; paper: {code(paper)}"


def row(key, meant, value, default):
    return [code(key), f"{meant}<br><small>{value[0].upper() + value[1:]}. {default}.</small>"]


def settings_page(definitions, chosen):
    """The page of all settings."""
    fit = next(command for command in definitions["commands"] if command["name"] == "fit")
    flags = {argument["long"]: argument for argument in fit["arguments"]}
    groups = {"Main settings": [], "Fine tuning": []}
    for setting in definitions["settings"]:
        made = row(setting["key"], sentence(setting["help"]), value(setting), default(setting, chosen))
        groups[setting["heading"] or "Main settings"].append(made)
    types = meaning(flags["type"]).replace(" Can be repeated.", "")
    columns = [
        row("missing_informative", meaning(flags["missing-informative"]), "`true` or `false`", "Default: `false`"),
        row("[columns]", types, "a table of types by column, such as `age = \"count\"`", "Default: inferred"),
    ]
    head = ["key", "meaning"]
    return "\n".join([
        "# Settings\n",
        "A setting is a key in the file of `pervade fit --config FILE.toml`, a [flag of `fit`](commands/fit.md) of the same name with `-` for `_`, "
        "and a parameter of the Python class [VaDE](python/vade.md), where `clusters`, `components`, `restarts` and `seed` are called "
        "`n_clusters`, `n_components`, `n_init` and `random_state`. Flags override the file, the file overrides the recipe. "
        "The guide has an [example of such a file](../guide/first-table.md#settings-in-a-file); `pervade inspect MODEL` shows the values that a "
        "model was fitted with.\n",
        "The defaults are those of the recipe `robust`; \"paper\" has those of `recipe = \"paper\"` where they differ. In the file, names are written "
        "in quotes and lists in brackets.\n",
        *(f"## {heading}\n\n{table(head, rows)}" for heading, rows in groups.items()),
        "## Columns\n\nThese keys are only for the file; their flags are `--missing-informative` and `--type`, and [column types](../guide/column-types.md) "
        f"explains them.\n\n{table(head, columns)}",
    ])  # fmt: skip


def python_page(title, objects, package):
    """A page whose content mkdocstrings takes from the docstrings."""
    made = [f"# {title}\n"]
    for name in objects:
        # A page about one thing has its name as the heading.
        options = ["show_root_heading: false", "show_root_toc_entry: false"] if len(objects) == 1 else []
        if listed := methods(package, name.rpartition(".")[2]):
            options.append(f"members: [{', '.join(listed)}]")
        made.append("\n".join([f"::: {name}", *(["    options:"] if options else []), *(f"      {option}" for option in options)]) + "\n")
    return "\n".join(made)
