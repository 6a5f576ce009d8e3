//! Listing runs.

use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::run::RunStatus;
use pentad_model::{IdEnding, Name, ThreadId};
use pentad_program::{RunFilter, Store};
use serde_json::{Map, Value, json};

use crate::families::events::{error_of, status_of};
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 25;

pub(super) async fn read(store: &dyn Store, options: &Options) -> Result<Product, Refusal> {
    let status = options.text("status").map(str::to_owned);
    if let Some(word) = &status
        && !RunStatus::WORDS.contains(&word.as_str())
    {
        let message = format!("'{}' is no status of a run.", show::line(word, 40));
        return Err(Refusal::new(RefusalKind::BadRequest, "status", message).supported(RunStatus::WORDS));
    }
    let before = match options.text("after") {
        None => None,
        Some(mark) => Some(
            store
                .find_run(&name(mark)?)
                .await
                .map_err(|error| from_store("after", &error))?
                .id,
        ),
    };
    let limit = options.limit(DEFAULT_LIMIT);
    let filter = RunFilter {
        status,
        thread: thread_option(store, options).await?,
        query: None,
        before,
        limit: limit + 1,
    };
    let mut runs = store
        .runs(filter)
        .await
        .map_err(|error| from_store("run:", &error))?;
    let more = runs.len() > limit;
    runs.truncate(limit);

    let mut text = "# Runs, newest first\n\n".to_owned();
    for run in &runs {
        let name = run
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!(" ({name})"));
        text.push_str(&format!(
            "- run:{}{name} {} · {}{} · {}, {}\n",
            run.id,
            show::line(&run.title, 120),
            status_of(run.status),
            error_of(run.error.as_ref()),
            run.caller.actor,
            show::time(run.created_at),
        ));
    }
    if runs.is_empty() {
        text.push_str("None.\n");
    }
    let mut value = json!({"runs": runs, "more": more});
    if more && let Some(last) = runs.last() {
        let mut again = Map::new();
        for key in ["status", "thread"] {
            if let Some(given) = options.text(key) {
                again.insert(key.to_owned(), json!(given));
            }
        }
        again.insert("limit".to_owned(), json!(limit));
        again.insert("after".to_owned(), json!(last.id.to_string()));
        text.push_str(&show::more("run:", &Value::Object(again)));
        if let Some(map) = value.as_object_mut() {
            map.insert("next".to_owned(), json!(last.id.to_string()));
        }
    }
    Ok(Product::text(text, "run:").value(value))
}

fn name(mark: &str) -> Result<Name, Refusal> {
    let bare = mark.trim();
    bare.strip_prefix("run:")
        .unwrap_or(bare)
        .parse()
        .map_err(|error: pentad_model::actor::NameError| {
            Refusal::new(RefusalKind::BadRequest, "after", format!("{error}."))
                .next_step("take the value of `next` of the last page")
        })
}

/// Reads the option `thread`: an ending of an id, with or without `thread:`.
pub(in crate::families) async fn thread_option(
    store: &dyn Store,
    options: &Options,
) -> Result<Option<ThreadId>, Refusal> {
    let Some(text) = options.text("thread") else {
        return Ok(None);
    };
    let bare = text.trim();
    let ending: IdEnding = bare.strip_prefix("thread:").unwrap_or(bare).parse().map_err(
        |error: pentad_model::id::IdError| {
            Refusal::new(RefusalKind::BadRequest, "thread", format!("{error}."))
                .next_step("read thread: lists the threads with their ids")
        },
    )?;
    store
        .find_thread(&ending)
        .await
        .map(|thread| Some(thread.id))
        .map_err(|error| from_store(&format!("thread:{ending}"), &error))
}
