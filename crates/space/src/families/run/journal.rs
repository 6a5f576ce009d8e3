//! What a run did, step by step: the events of its thread and its own steps, in the order of the journal.

use pentad_model::event::Event;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::run::Run;
use pentad_model::step::Step;
use pentad_program::{RunStore, Store, StoreError};
use serde_json::{Value, json};

use super::{record, steps};
use crate::families::events::{self, Detail};
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 100;
/// Events of a run that are looked through at once. A run has seldom more; where it has, the place of a mark is searched.
const SCAN: usize = 1_000;

/// An event or a step.
enum Entry {
    Event(Event),
    Step(Step),
}

impl Entry {
    const fn position(&self) -> u64 {
        match self {
            Self::Event(event) => event.position,
            Self::Step(step) => step.journal,
        }
    }
}

/// What stands after a position.
struct Page {
    entries: Vec<Entry>,
    more: bool,
}

pub(super) async fn read(
    store: &dyn Store,
    runs: Option<&dyn RunStore>,
    run: &Run,
    options: &Options,
) -> Result<Product, Refusal> {
    let address = format!("run:{}/journal", run.id);
    let after = match options.text("after") {
        None => 0,
        Some(text) => text.trim().parse::<u64>().map_err(|_| {
            let message = "after takes a place in the journal: a number as it stands in brackets.";
            Refusal::new(RefusalKind::BadRequest, "after", message)
        })?,
    };
    let limit = options.limit(DEFAULT_LIMIT);
    let page = page(store, runs, run, after, limit)
        .await
        .map_err(|error| from_store(&address, &error))?;
    let mut text = record::headline(run, "Journal of ", &address);
    for entry in &page.entries {
        match entry {
            Entry::Event(event) => {
                text.push_str(&events::placed(event, Detail::Full));
            }
            Entry::Step(step) => text.push_str(&steps::markdown(step, Detail::Full)),
        }
    }
    if page.entries.is_empty() {
        text.push_str("Nothing here.\n");
    }
    let mut value = json!({
        "run": run.id,
        "status": run.status.word(),
        "events": page.entries.iter().filter_map(|entry| match entry {
            Entry::Event(event) => Some(events::value(event)),
            Entry::Step(_) => None,
        }).collect::<Vec<Value>>(),
        "steps": page.entries.iter().filter_map(|entry| match entry {
            Entry::Event(_) => None,
            Entry::Step(step) => Some(step.shown()),
        }).collect::<Vec<Value>>(),
        "more": page.more,
    });
    if page.more
        && let Some(last) = page.entries.last()
    {
        let again = json!({"limit": limit, "after": last.position().to_string()});
        text.push_str(&show::more(&address, &again));
        if let Some(map) = value.as_object_mut() {
            map.insert("next".to_owned(), again);
        }
    }
    Ok(Product::text(text, address).value(value))
}

/// Reads both kinds and merges them. What is written meanwhile belongs to a later page, or it might be passed over.
async fn page(
    store: &dyn Store,
    runs: Option<&dyn RunStore>,
    run: &Run,
    after: u64,
    limit: usize,
) -> Result<Page, StoreError> {
    let mut horizon = match runs {
        Some(_) => store.head().await?,
        None => u64::MAX,
    };
    let (events, mut more) = events_after(store, run, after, limit).await?;
    if more && let Some(last) = events.last() {
        horizon = horizon.min(last.position);
    }
    let mut entries: Vec<Entry> = events.into_iter().map(Entry::Event).collect();
    if let Some(runs) = runs {
        let seq = steps_up_to(runs, run, after).await?;
        let page = runs.steps(run.id, seq, limit).await?;
        if page.more
            && let Some(last) = page.steps.last()
        {
            more = true;
            horizon = horizon.min(last.journal);
        }
        entries.extend(page.steps.into_iter().map(Entry::Step));
    }
    let found = entries.len();
    entries.retain(|entry| entry.position() <= horizon);
    entries.sort_by_key(Entry::position);
    entries.truncate(limit);
    more |= entries.len() < found;
    Ok(Page { entries, more })
}

/// Returns a run's events after a position, and whether there are more.
///
/// The store counts a run's events as their thread does, so the place has to be found: among all, where they are few;
/// else by search, since positions rise with a thread's numbers.
async fn events_after(
    store: &dyn Store,
    run: &Run,
    after: u64,
    limit: usize,
) -> Result<(Vec<Event>, bool), StoreError> {
    let few = store.run_events(run.id, 0, SCAN.max(limit)).await?;
    if !few.more || after == 0 {
        let mut events: Vec<Event> = few.events.into_iter().filter(|e| e.position > after).collect();
        // Events of several threads, which commands of this run may have opened, are in their own orders.
        events.sort_by_key(|event| event.position);
        let more = few.more || events.len() > limit;
        events.truncate(limit);
        return Ok((events, more));
    }
    let (mut low, mut high) = (0, after);
    while low < high {
        let middle = low + (high - low) / 2;
        let next = store.run_events(run.id, middle, 1).await?;
        match next.events.first() {
            Some(event) if event.position <= after => low = event.seq.max(middle + 1),
            _ => high = middle,
        }
    }
    let page = store.run_events(run.id, low, limit).await?;
    Ok((page.events, page.more))
}

/// Returns the number of the last of a run's steps that stand at or before a position.
pub(super) async fn steps_up_to(runs: &dyn RunStore, run: &Run, position: u64) -> Result<u64, StoreError> {
    let (mut low, mut high) = (0, position);
    while low < high {
        let middle = low + (high - low) / 2;
        let next = runs.steps(run.id, middle, 1).await?;
        match next.steps.first() {
            Some(step) if step.journal <= position => low = step.seq.max(middle + 1),
            _ => high = middle,
        }
    }
    Ok(low)
}
