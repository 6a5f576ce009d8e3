//! `activity:`: what happened, over all threads.

mod steps;

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family};
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::Read;
use pentad_model::{Actor, Timestamp, Verb};
use pentad_program::{ActivityFilter, Store, StoreError};
use serde_json::{Value, json};

use self::steps::{Entry, Stretch};
use super::events::{self, Detail};
use super::misdirected;
use super::run::{step_line, thread_option};
use crate::durable::DurableRuns;
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 50;
/// Options that the next page has as well.
const SAME: [&str; 6] = ["actor", "verb", "thread", "since", "until", "steps"];

/// Serves `activity:`.
pub(crate) struct ActivityFamily {
    store: Arc<dyn Store>,
    durable: Arc<DurableRuns>,
    limits: SpaceLimits,
}

impl ActivityFamily {
    pub(crate) const fn new(store: Arc<dyn Store>, durable: Arc<DurableRuns>, limits: SpaceLimits) -> Self {
        Self {
            store,
            durable,
            limits,
        }
    }
}

#[async_trait]
impl AddressFamily for ActivityFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::Activity]
    }

    async fn read(&self, _scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        if !matches!(read.address, Address::Activity) {
            return Err(misdirected(&read.address));
        }
        let limit = read.options.limit(DEFAULT_LIMIT);
        let filter = filter(self.store.as_ref(), &read.options, limit + 1).await?;
        let stretch = if read.options.flag("steps") {
            let runs = self.durable.required("activity:")?;
            steps::newest(self.store.as_ref(), runs, &filter, limit, self.limits.scan_events).await
        } else {
            self.events(filter, limit).await
        }
        .map_err(|error| from_store("activity:", &error))?;
        Ok(product(&stretch, limit, &read.options))
    }
}

impl ActivityFamily {
    async fn events(&self, filter: ActivityFilter, limit: usize) -> Result<Stretch, StoreError> {
        let mut found = self.store.activity(filter).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        Ok(Stretch {
            next: found.last().filter(|_| more).map(|last| last.position),
            entries: found.into_iter().map(Entry::Event).collect(),
        })
    }
}

async fn filter(store: &dyn Store, options: &Options, limit: usize) -> Result<ActivityFilter, Refusal> {
    let wrong = |key: &str, message: String| Refusal::new(RefusalKind::BadRequest, key, message);
    let time = |key: &'static str| {
        options
            .text(key)
            .map(|text| {
                Timestamp::parse(text.trim()).map_err(|error| {
                    wrong(key, format!("{key} is no time: {}.", error.trim_end_matches('.')))
                        .supported(["2026-11-30T10:00:00Z", "2026-11-30T10:00:00+02:00"])
                })
            })
            .transpose()
    };
    let actor = options
        .text("actor")
        .map(|text| {
            text.trim()
                .parse::<Actor>()
                .map_err(|error| wrong("actor", format!("{error}.")))
        })
        .transpose()?;
    let before = options
        .text("after")
        .map(|text| {
            text.trim()
                .parse::<u64>()
                .map_err(|_| wrong("after", "after takes the `next` of the last page.".to_owned()))
        })
        .transpose()?;
    Ok(ActivityFilter {
        actor,
        verb: options.text("verb").map(str::parse::<Verb>).transpose()?,
        thread: thread_option(store, options).await?,
        since: time("since")?,
        until: time("until")?,
        before,
        limit,
    })
}

fn product(stretch: &Stretch, limit: usize, options: &Options) -> Product {
    let mut text = "# Activity, newest first\n\n".to_owned();
    let (mut events, mut steps): (Vec<Value>, Vec<Value>) = Default::default();
    for entry in &stretch.entries {
        match entry {
            Entry::Event(event) => {
                let line = events::markdown(event, Detail::Names);
                text.push_str(&format!("thread:{} {line}", event.thread));
                events.push(events::value(event));
            }
            Entry::Step(step) => {
                text.push_str(&format!("run:{} {}", step.run, step_line(step)));
                steps.push(step.shown());
            }
        }
    }
    if stretch.entries.is_empty() {
        text.push_str("Nothing.\n");
    }
    let mut value = json!({"events": events, "more": stretch.next.is_some()});
    if options.flag("steps")
        && let Some(map) = value.as_object_mut()
    {
        map.insert("steps".to_owned(), Value::Array(steps));
    }
    if let Some(next) = stretch.next {
        let mut again = options.given();
        again.retain(|key, _| SAME.contains(&key.as_str()));
        again.insert("limit".to_owned(), json!(limit));
        again.insert("after".to_owned(), json!(next.to_string()));
        text.push_str(&show::more("activity:", &Value::Object(again)));
        if let Some(map) = value.as_object_mut() {
            map.insert("next".to_owned(), json!(next.to_string()));
        }
    }
    Product::text(text, "activity:").value(value)
}
