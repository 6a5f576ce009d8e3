//! The verbs' own contracts, deeper than what fits into the payload.

use std::fmt::Write as _;

use pentad_model::Verb;
use pentad_model::address::{FORMS, Family};
use pentad_model::contract::{description, input_schema};
use pentad_model::options::{OptionSpec, VIEW, WRITABLE, form_name, read_options, write_form};

use super::schema::{Layout, json};

/// The families that take options of their own when read.
const WITH_OPTIONS: [Family; 9] = [
    Family::ToolList,
    Family::ThreadList,
    Family::Thread,
    Family::RunList,
    Family::RunJournal,
    Family::RunOutput,
    Family::Approvals,
    Family::Activity,
    Family::Web,
];

const TOOL_FORMAT: &str = r#"## A tool

`write {"address":"~/tools/transcribe","content":"…"}` makes a recipe, a typed command, from Markdown or JSON. The
name is the last part of the address. A description is required: it is what others find the tool by.

````markdown
---
description: Transcribes a recording to text.
args: ["file:path", "lang=en"]
---
```sh command
whisper {file} --lang {lang}
```
````

The same as JSON: {"description": "Transcribes a recording to text.", "template": "whisper {file:path} --lang {lang=en}"}

The command is split into words before values are put in, and no shell runs: a value is always within one word, and
`|`, `>` and `$X` mean nothing. Placeholders: {name}, {name:type}, {name=default}, {name:type=default}, and
{name??text} for an optional one. Types: string, path, int, number, bool, array, enum(a,b). A list as template runs its
commands one after the other. dryRun says what the tool would become. options {"delete": true} removes it.
"#;

const CALL_NOTES: &str = r#"## What comes back

A tool whose contract this thread has not seen returns the contract instead of running, unless it is trusted to be
read-only and the input fits: read it, then call again. Input that does not fit returns the contract with what is
wrong. A name that several sources have returns the candidates: use source/name. Some calls wait for a person's
approval: the refusal names it, and repeating the call after the grant runs it.

call {"tool":"recipes/transcribe","input":{"file":"talk.wav"}}
"#;

const DELEGATE_NOTES: &str = r#"## What comes back

{status: succeeded|failed|canceled|detached, runId, output?, error?}. A child's grants are yours or fewer. With an output
schema the child owes a result of that shape; without one it fails. With await false it goes on by itself: read
run:<runId> for where it stands.

delegate {"recipe":"recipes/transcribe","input":{"file":"talk.wav"},"await":false}
"#;

const PLAN_NOTES: &str = r#"## Example

plan {"title":"Release","steps":[{"id":"test","label":"Run the tests","status":"running"},{"id":"tag","label":"Tag","status":"pending"}]}

Steps are settled by evidence: a step with children is done when all of them succeeded. Send the whole list each time.
"#;

/// Returns a verb's contract as Markdown.
#[must_use]
pub fn verb_contract(verb: Verb) -> String {
    let mut text = format!(
        "# {}\n\none of the five verbs · used directly, not through call\n\n{}\n\n",
        verb.name(),
        description(verb)
    );
    match verb {
        Verb::Read => read_forms(&mut text),
        Verb::Write => write_forms(&mut text),
        Verb::Call => text.push_str(CALL_NOTES),
        Verb::Delegate => text.push_str(DELEGATE_NOTES),
        Verb::Plan => text.push_str(PLAN_NOTES),
    }
    let schema = json(&input_schema(verb), Layout::Pretty);
    let _ = write!(text, "\n## Input\n\n```json\n{schema}\n```\n");
    text
}

fn read_forms(text: &mut String) {
    text.push_str("## Addresses\n\n");
    for (form, what) in FORMS {
        let _ = writeln!(text, "- `{form}`: {what}");
    }
    text.push_str("\n## Options of every read\n\n");
    options(text, VIEW);
    for family in WITH_OPTIONS {
        let _ = writeln!(text, "\n## Options of {}\n", form_name(family));
        options(text, read_options(family));
    }
}

fn write_forms(text: &mut String) {
    text.push_str("## What can be written\n\n");
    for family in WRITABLE {
        let Some(form) = write_form(*family) else { continue };
        let dry_run = if form.dry_run { "" } else { "; no dryRun" };
        let _ = writeln!(text, "- `{}`: {}{dry_run}", form_name(*family), form.doc);
        for option in form.options {
            let _ = writeln!(text, "  - {}: {}", option.key, option.doc);
        }
    }
    text.push('\n');
    text.push_str(TOOL_FORMAT);
}

fn options(text: &mut String, specs: &[OptionSpec]) {
    for spec in specs {
        let _ = writeln!(text, "- {}: {}", spec.key, spec.doc);
    }
}
