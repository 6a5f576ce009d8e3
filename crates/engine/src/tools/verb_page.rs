//! The verbs' own pages: what the short contracts in the payload leave out.

use std::fmt::Write as _;

use pentad_model::Verb;
use pentad_model::address::{FORMS, Family};
use pentad_model::contract::{description, input_schema};
use pentad_model::options::{Kind, OptionSpec, VIEW, WRITABLE, form_name, read_options, write_form};
use pentad_model::outcome::Product;
use serde_json::json;

const READABLE: [Family; 14] = [
    Family::ToolList,
    Family::Tool,
    Family::Memory,
    Family::SelfAgent,
    Family::ThreadList,
    Family::Thread,
    Family::RunList,
    Family::Run,
    Family::RunJournal,
    Family::RunOutput,
    Family::Activity,
    Family::Approvals,
    Family::File,
    Family::Web,
];

/// Returns the whole page of a verb: `~/tools/read` and so on.
pub(crate) fn verb_contract(verb: Verb) -> Product {
    let mut page = format!("# {verb}\n\n{}\n", description(verb));
    match verb {
        Verb::Read => read_page(&mut page),
        Verb::Write => write_page(&mut page),
        Verb::Call => page.push_str(CALL),
        Verb::Delegate => page.push_str(DELEGATE),
        Verb::Plan => page.push_str(PLAN),
    }
    let schema = input_schema(verb);
    let _ = write!(page, "\n## Arguments\n\n```json\n{schema:#}\n```\n");
    let product = Product {
        contract: true,
        ..Product::text(page, format!("~/tools/{verb}"))
    };
    product.value(json!({"name": verb.name(), "input": schema}))
}

fn option_lines(page: &mut String, options: &[OptionSpec]) {
    for option in options {
        let kind = match option.kind {
            Kind::Text => "text".to_owned(),
            Kind::Flag => "true|false".to_owned(),
            Kind::Number { min, max } => format!("{min}–{max}"),
            Kind::Word(words) => words.join("|"),
            Kind::Object => "object".to_owned(),
        };
        let _ = writeln!(page, "  - `{}` ({kind}): {}", option.key, option.doc);
    }
}

fn read_page(page: &mut String) {
    page.push_str("\n## Addresses\n\n");
    for (form, doc) in FORMS {
        let _ = writeln!(page, "- `{form}`: {doc}");
    }
    page.push_str(RESOURCES);
    page.push_str("\n## Options of every address\n\n");
    option_lines(page, VIEW);
    page.push_str("\n## Options by address\n\n");
    for family in READABLE {
        let options = read_options(family);
        if !options.is_empty() {
            let _ = writeln!(page, "- `{}`", form_name(family));
            option_lines(page, options);
        }
    }
}

fn write_page(page: &mut String) {
    page.push_str("\n## Addresses\n\n");
    for family in WRITABLE {
        let Some(form) = write_form(*family) else { continue };
        let dry = if form.dry_run {
            "honours dryRun"
        } else {
            "refuses dryRun"
        };
        let _ = writeln!(page, "- `{}`: {}; {dry}", form_name(*family), form.doc);
        option_lines(page, form.options);
    }
    page.push_str(RECIPE_FORMAT);
}

const RESOURCES: &str = "
To an MCP client every address is a resource too: `pentad:` and the address %-encoded, options after a `?`, as in
`pentad:run:<id>/output?lines=1-40`.
";

const RECIPE_FORMAT: &str = r#"
## A tool as Markdown

The address names it: `write {"address":"~/tools/line_count","content":"…"}`.

````markdown
---
description: Counts the lines of a file.
args: file:path, flag:enum(-l,-w)=-l
timeout: 10000
---
```template
wc {flag} {file}
```
````

Placeholders are `{name}`, `{name:type}`, `{name=default}`, `{name:type=default}`, `{name??fallback}` and
`{name?yes:no}`; types are string, path, int, number, bool, array and enum(a,b). A placeholder is always one
argument: there is no shell, so quoting, `|`, `>` and `&&` mean nothing. Several commands: `template` as a JSON list
runs them in order, each reading the one before; `{"parallel": true, "template": [...]}` runs them side by side.
Node fields: when, timeout (ms), delay, retry, failure (continue, branch, root), recover, repeat.

## A tool as JSON

`{"description": "…", "args": ["file:path"], "template": "wc -l {file}"}`
"#;

const CALL: &str = "
## How a call goes

1. The tool is found by `name`, or by `source/name` when several sources have the name.
2. If you have not seen its contract in this thread, or the input does not fit, the contract is the result: nothing ran.
3. The gate judges. If a person must approve, your client asks them where it can, and the call goes on with their answer.
   Elsewhere the refusal names `approval:<id>`; repeat the same call after the grant.
4. It runs as `run:<id>`; `run:<id>/output` keeps what a cut result left out.
";

const DELEGATE: &str = "
## Recipes

`delegate {\"recipe\":\"name\",\"input\":{…},\"await\":false}` starts it and returns `runId` at once; `read run:<id>` shows
its status, `read run:<id>/output` its output. With `output` (a JSON Schema) the result must fit or the run counts as
failed. `budget.wallSeconds` limits it.
";

const PLAN: &str = "
## Steps

`steps` is the whole list every time: `[{\"id\":\"a\",\"label\":\"Read the log\",\"status\":\"running\"}, …]`. A bare text is a
pending step. At most 100. The result's `thread` is the handle of this plan: pass it back to keep working on it.
";
