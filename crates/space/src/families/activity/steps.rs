//! Steps of runs among the events of all threads.

use std::collections::HashMap;

use pentad_model::RunId;
use pentad_model::event::Event;
use pentad_model::run::Run;
use pentad_model::step::{Step, StepBody};
use pentad_program::{ActivityFilter, RunStore, Store, StoreError};
use serde_json::Value;

/// Steps that are read at once.
const PAGE: usize = 1_000;

/// An event or a step.
pub(super) enum Entry {
    Event(Event),
    Step(Step),
}

impl Entry {
    pub(super) const fn position(&self) -> u64 {
        match self {
            Self::Event(event) => event.position,
            Self::Step(step) => step.journal,
        }
    }
}

/// What of a stretch of the journal the filter matches, newest first.
pub(super) struct Stretch {
    pub(super) entries: Vec<Entry>,
    /// Where the next page begins, when there is one.
    pub(super) next: Option<u64>,
}

/// Reads the newest `limit` entries, events and steps, looking at no more than about `scan` places.
///
/// The journal gives steps in ascending order only, so a stretch before the mark is read that grows until it has enough.
pub(super) async fn newest(
    store: &dyn Store,
    runs: &dyn RunStore,
    filter: &ActivityFilter,
    limit: usize,
    scan: usize,
) -> Result<Stretch, StoreError> {
    let before = match filter.before {
        Some(before) => before,
        None => store.head().await?.saturating_add(1),
    };
    let wanted = ActivityFilter {
        before: Some(before),
        limit: limit + 1,
        ..filter.clone()
    };
    let events = store.activity(wanted).await?;
    let mut sieve = Sieve {
        store,
        filter,
        runs: HashMap::new(),
    };
    let (mut low, mut width) = (before.saturating_sub(1), limit as u64 + 1);
    let mut steps = Vec::new();
    loop {
        let upper = low.saturating_add(1);
        low = before.saturating_sub(1).saturating_sub(width);
        let found = sieve.steps(runs, low, upper).await?;
        // What was found now is older than what was found before.
        steps.splice(0..0, found);
        let enough = events.iter().filter(|event| event.position > low).count() + steps.len() > limit;
        if enough || low == 0 || width >= scan as u64 {
            break;
        }
        width = width.saturating_mul(4).min(scan as u64);
    }
    let mut entries: Vec<Entry> = events
        .into_iter()
        .filter(|event| event.position > low)
        .map(Entry::Event)
        .collect();
    entries.extend(steps.into_iter().map(Entry::Step));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.position()));
    let cut = entries.len() > limit;
    entries.truncate(limit);
    let next = match entries.last() {
        Some(last) if cut => Some(last.position()),
        _ => (low > 0).then_some(low.saturating_add(1)),
    };
    Ok(Stretch { entries, next })
}

/// Tells which steps a filter matches: it speaks of threads and actors, which only the run knows.
struct Sieve<'a> {
    store: &'a dyn Store,
    filter: &'a ActivityFilter,
    runs: HashMap<RunId, Option<Run>>,
}

impl Sieve<'_> {
    /// Returns the steps that stand after `low` and before `upper`.
    async fn steps(&mut self, runs: &dyn RunStore, low: u64, upper: u64) -> Result<Vec<Step>, StoreError> {
        let (mut found, mut at) = (Vec::new(), low);
        loop {
            let page = runs.step_feed(at, PAGE).await?;
            let Some(last) = page.last() else { break };
            at = last.journal;
            for step in page {
                if step.journal < upper && self.fits(&step).await? {
                    found.push(step);
                }
            }
            if at.saturating_add(1) >= upper {
                break;
            }
        }
        Ok(found)
    }

    async fn fits(&mut self, step: &Step) -> Result<bool, StoreError> {
        let ActivityFilter {
            actor,
            verb,
            thread,
            since,
            until,
            ..
        } = self.filter;
        let verb = verb.is_none_or(|verb| match &step.body {
            StepBody::Command(command) => {
                command.asked.get("verb").and_then(Value::as_str) == Some(verb.name())
            }
            _ => false,
        });
        let in_time = since.is_none_or(|since| step.at >= since) && until.is_none_or(|until| step.at < until);
        if !verb || !in_time {
            return Ok(false);
        }
        if actor.is_none() && thread.is_none() {
            return Ok(true);
        }
        let (actor, thread) = (actor.clone(), *thread);
        let Some(run) = self.run(step.run).await? else {
            return Ok(false);
        };
        let by = step.by.as_ref().map_or(&run.caller.actor, |by| &by.actor);
        Ok(actor.is_none_or(|actor| actor == *by) && thread.is_none_or(|thread| thread == run.thread))
    }

    async fn run(&mut self, id: RunId) -> Result<Option<&Run>, StoreError> {
        if !self.runs.contains_key(&id) {
            let run = match self.store.run(id).await {
                Ok(run) => Some(run),
                Err(StoreError::NotFound(_)) => None,
                Err(error) => return Err(error),
            };
            self.runs.insert(id, run);
        }
        Ok(self.runs.get(&id).and_then(Option::as_ref))
    }
}
