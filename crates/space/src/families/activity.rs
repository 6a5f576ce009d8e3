//! `activity:`: what happened, over all threads.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family};
use pentad_model::event::Event;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::Read;
use pentad_model::{Actor, Timestamp, Verb};
use pentad_program::{ActivityFilter, Store};
use serde_json::{Map, Value, json};

use super::events::{self, Detail};
use super::misdirected;
use super::run::thread_option;
use crate::family::AddressFamily;
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 50;

/// Serves `activity:`.
pub(crate) struct ActivityFamily {
    store: Arc<dyn Store>,
}

impl ActivityFamily {
    pub(crate) const fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
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
        let mut found = self
            .store
            .activity(filter)
            .await
            .map_err(|error| from_store("activity:", &error))?;
        let more = found.len() > limit;
        found.truncate(limit);
        Ok(product(&found, more, limit, &read.options))
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

fn product(found: &[Event], more: bool, limit: usize, options: &Options) -> Product {
    let mut text = "# Activity, newest first\n\n".to_owned();
    for event in found {
        text.push_str(&format!(
            "thread:{} {}",
            event.thread,
            events::markdown(event, Detail::Names)
        ));
    }
    if found.is_empty() {
        text.push_str("Nothing.\n");
    }
    let list: Vec<Value> = found.iter().map(events::value).collect();
    let mut value = json!({"events": list, "more": more});
    if more && let Some(last) = found.last() {
        let mut again = Map::new();
        for key in ["actor", "verb", "thread", "since", "until"] {
            if let Some(given) = options.text(key) {
                again.insert(key.to_owned(), json!(given));
            }
        }
        again.insert("limit".to_owned(), json!(limit));
        again.insert("after".to_owned(), json!(last.position.to_string()));
        text.push_str(&show::more("activity:", &Value::Object(again)));
        if let Some(map) = value.as_object_mut() {
            map.insert("next".to_owned(), json!(last.position.to_string()));
        }
    }
    Product::text(text, "activity:").value(value)
}
