//! Listing runs.

use std::collections::VecDeque;

use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::run::{Run, RunStatus};
use pentad_model::{IdEnding, Name, RunId, ThreadId};
use pentad_program::{RunFilter, Store, StoreError};
use serde_json::{Map, Value, json};

use crate::families::events::{error_of, status_of};
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 25;
/// Runs that are read at once.
const PAGE: usize = 100;

/// Which runs are listed.
pub(super) struct Listing {
    status: Option<String>,
    thread: Option<ThreadId>,
    /// Only runs older than this one.
    pub(super) before: Option<RunId>,
    /// Verbs that succeeded, too.
    all: bool,
    /// Most entries, if that is said.
    pub(super) limit: Option<usize>,
    /// The filters as they were given, without mark and limit.
    given: Map<String, Value>,
}

impl Listing {
    pub(super) async fn of(store: &dyn Store, options: &Options) -> Result<Self, Refusal> {
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
        let mut given = options.given();
        given.retain(|key, _| ["status", "thread", "all"].contains(&key.as_str()));
        Ok(Self {
            status,
            thread: thread_option(store, options).await?,
            before,
            all: options.flag("all"),
            limit: options.number("limit").and_then(|n| usize::try_from(n).ok()),
            given,
        })
    }

    /// Returns the filters as they were given.
    pub(super) fn given(&self) -> Map<String, Value> {
        self.given.clone()
    }

    /// Tells whether a run is listed, its age apart.
    pub(super) fn wants(&self, run: &Run) -> bool {
        let plain = run.terms.program.is_empty() && run.tool.is_none();
        let hidden = plain && run.status == RunStatus::Succeeded && !self.all;
        !hidden
            && self.status.as_ref().is_none_or(|word| run.status.word() == word)
            && self.thread.is_none_or(|thread| thread == run.thread)
    }

    /// Returns the runs that are listed, newest first.
    pub(super) fn pages<'a>(&'a self, store: &'a dyn Store) -> Pages<'a> {
        Pages {
            store,
            listing: self,
            before: self.before,
            page: VecDeque::new(),
            over: false,
        }
    }
}

/// Runs, read page by page.
pub(super) struct Pages<'a> {
    store: &'a dyn Store,
    listing: &'a Listing,
    before: Option<RunId>,
    page: VecDeque<Run>,
    over: bool,
}

impl Pages<'_> {
    pub(super) async fn next(&mut self) -> Result<Option<Run>, StoreError> {
        loop {
            while let Some(run) = self.page.pop_front() {
                self.before = Some(run.id);
                if self.listing.wants(&run) {
                    return Ok(Some(run));
                }
            }
            if self.over {
                return Ok(None);
            }
            let filter = RunFilter {
                status: self.listing.status.clone(),
                thread: self.listing.thread,
                query: None,
                before: self.before,
                limit: PAGE,
            };
            let found = self.store.runs(filter).await?;
            self.over = found.is_empty();
            self.page = found.into();
        }
    }
}

pub(super) async fn read(store: &dyn Store, listing: Listing) -> Result<Product, Refusal> {
    let limit = listing.limit.unwrap_or(DEFAULT_LIMIT);
    let mut pages = listing.pages(store);
    let mut runs = Vec::new();
    while runs.len() <= limit {
        match pages.next().await.map_err(|error| from_store("run:", &error))? {
            Some(run) => runs.push(run),
            None => break,
        }
    }
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
        go_on(&mut text, &mut value, listing.given(), limit, last.id);
    }
    Ok(Product::text(text, "run:").value(value))
}

/// Adds how a list goes on after a run.
pub(super) fn go_on(
    text: &mut String,
    value: &mut Value,
    mut again: Map<String, Value>,
    limit: usize,
    mark: RunId,
) {
    again.insert("limit".to_owned(), json!(limit));
    again.insert("after".to_owned(), json!(mark.to_string()));
    text.push_str(&show::more("run:", &Value::Object(again)));
    if let Some(map) = value.as_object_mut() {
        map.insert("next".to_owned(), json!(mark.to_string()));
    }
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
