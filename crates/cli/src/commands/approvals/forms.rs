//! Forms of servers that wait for a person: shown, filled in, declined.

use std::process::ExitCode;

use pentad_keeper::attach::OpenForm;
use pentad_model::text::{excerpt, visible};
use pentad_model::{FormAnswer, IdEnding, Outcome, Refusal, RefusalKind};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::refused;
use crate::args::Globals;
use crate::fill::{Tty, dialogue, kind_words, quoted};
use crate::house::House;
use crate::input_arg::{Pair, input};
use crate::invoke::block_on;
use crate::render::Rendered;
use crate::shell::require_person_at_terminal;
use crate::terminal::Terminal;

/// How much of a message stands in the list.
const LISTED_BYTES: usize = 120;

/// Puts the forms that wait beside the approvals.
pub fn append(outcome: &mut Outcome, open: &[OpenForm]) {
    if let Some(value) = outcome.value.as_mut().and_then(|value| value.as_object_mut()) {
        value.insert("forms".to_owned(), json!(open));
    }
    if open.is_empty() {
        return;
    }
    outcome.text.push_str("\n# Forms, oldest first\n\n");
    for open in open {
        let message = visible(&open.form.message);
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        outcome.text.push_str(&format!(
            "- form:{} {}: \"{}\" · {} · until {}\n",
            open.id,
            open.form.server,
            excerpt(&message, LISTED_BYTES),
            open.form.names(),
            open.until
        ));
    }
    outcome.text.push_str("\nNext: pentad approvals fill ID\n");
}

/// Shows one form whole.
pub fn one(open: &OpenForm) -> String {
    let form = &open.form;
    let mut text = format!(
        "# form:{} of the server {}\n\n{}\n",
        open.id,
        form.server,
        quoted(&form.message)
    );
    for field in form.fields() {
        let required = if field.required { ", required" } else { "" };
        text.push_str(&format!("- {}: {}{required}\n", field.name, kind_words(&field)));
        for words in field.title.iter().chain(&field.description) {
            text.push_str(
                &quoted(words)
                    .lines()
                    .map(|line| format!("  {line}\n"))
                    .collect::<String>(),
            );
        }
    }
    for run in &open.runs {
        text.push_str(&format!("- perhaps of run:{run}\n"));
    }
    text.push_str(&format!(
        "- asked at {}, waits until {}\n\nNext: pentad approvals fill {}\n",
        open.asked_at, open.until, open.id
    ));
    text
}

/// Fills a form in with these values, else field by field, or declines it.
pub fn fill(
    globals: &Globals,
    terminal: &Terminal,
    id: &IdEnding,
    pairs: &[Pair],
    decline: bool,
) -> anyhow::Result<ExitCode> {
    require_person_at_terminal("filling in a form")?;
    block_on(async {
        let house = House::open(globals).await?;
        let answered = answered(&house, id, pairs, decline).await;
        house.close().await;
        match answered? {
            Ok((open, word)) if terminal.json => {
                let line = json!({"form": open.id, "server": open.form.server, "answer": word});
                Ok(terminal.emit(&Rendered::data(format!("{line}\n"), 0)))
            }
            Ok((open, word)) => {
                let text = format!("The form of '{}' was {word}.\n", open.form.server);
                Ok(terminal.emit(&Rendered::data(text, 0)))
            }
            Err(refusal) => Ok(terminal.emit(&refused(&refusal, terminal))),
        }
    })?
}

async fn answered(
    house: &House,
    id: &IdEnding,
    pairs: &[Pair],
    decline: bool,
) -> anyhow::Result<Result<(OpenForm, &'static str), Refusal>> {
    let by = &house.calling.actor;
    let answer = if decline {
        FormAnswer::Declined
    } else {
        let open = match house.desk.forms().await {
            Ok(open) => open,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(open) = open.into_iter().find(|open| id.matches(open.id.0)) else {
            // The desk says what is wrong with the id.
            let nothing = FormAnswer::Accepted(serde_json::Map::new());
            let refused = house.desk.answer_form(id, nothing, by).await;
            return Ok(refused.map(|open| (open, "filled in")));
        };
        if pairs.is_empty() {
            let form = open.form;
            tokio::task::spawn_blocking(move || dialogue(&form, &mut Tty::new(CancellationToken::new())))
                .await?
        } else {
            FormAnswer::Accepted(input(None, pairs, Some(&open.form.schema))?)
        }
    };
    let word = match &answer {
        FormAnswer::Accepted(_) => "filled in",
        FormAnswer::Declined => "declined",
        FormAnswer::Unanswered { .. } => {
            let text = "The form was put away, and waits on.";
            return Ok(Err(Refusal::new(
                RefusalKind::Unavailable,
                format!("form:{id}"),
                text,
            )
            .next_step(format!("pentad approvals fill {id}"))));
        }
    };
    Ok(house
        .desk
        .answer_form(id, answer, by)
        .await
        .map(|open| (open, word)))
}
