//! Listing and searching threads.

use pentad_model::Name;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_program::{Store, ThreadFilter, ThreadHit};
use serde_json::{Map, Value, json};

use crate::scene::Scene;
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 25;

pub(super) async fn read(store: &dyn Store, scene: &Scene, options: &Options) -> Result<Product, Refusal> {
    let agent = match options.text("agent") {
        None => Some(scene.agent.clone()),
        Some("*") => None,
        Some(text) => Some(text.parse::<Name>().map_err(|error| {
            Refusal::new(RefusalKind::BadRequest, "agent", format!("{error}."))
                .next_step("read agent: lists the agents; * means all")
        })?),
    };
    let limit = options.limit(DEFAULT_LIMIT);
    let query = options.text("query").map(str::to_owned);
    let filter = ThreadFilter {
        agent: agent.clone(),
        query: query.clone(),
        after: options.text("after").map(str::to_owned),
        limit: limit + 1,
    };
    let mut hits = store
        .threads(filter)
        .await
        .map_err(|error| from_store("thread:", &error))?;
    let more = hits.len() > limit;
    hits.truncate(limit);
    let next = more.then(|| hits.last().map(|hit| hit.mark.clone())).flatten();

    let whose = agent
        .as_ref()
        .map_or_else(|| "all agents".to_owned(), |agent| format!("agent {agent}"));
    let searched = query
        .as_ref()
        .map_or_else(String::new, |query| format!(" with {}", show::code(query)));
    let mut text = format!("# Threads of {whose}{searched}, newest first\n\n");
    for hit in &hits {
        text.push_str(&line(hit));
    }
    if hits.is_empty() {
        text.push_str("None.");
        text.push_str(if query.is_some() {
            " Every word of the query must occur in a thread's title or events.\n"
        } else {
            " Next: options.agent \"*\" lists those of all agents.\n"
        });
    }
    let mut value = json!({"threads": hits, "more": more});
    if let Some(next) = next {
        let mut again = Map::new();
        for key in ["query", "agent"] {
            if let Some(given) = options.text(key) {
                again.insert(key.to_owned(), json!(given));
            }
        }
        again.insert("limit".to_owned(), json!(limit));
        again.insert("after".to_owned(), json!(next));
        text.push_str(&show::more("thread:", &Value::Object(again)));
        if let Some(map) = value.as_object_mut() {
            map.insert("next".to_owned(), json!(next));
        }
    }
    Ok(Product::text(text, "thread:").value(value))
}

fn line(hit: &ThreadHit) -> String {
    let thread = &hit.thread;
    let title = thread
        .title
        .as_ref()
        .map_or_else(|| "untitled".to_owned(), |title| show::line(title, 120));
    let snippet = hit
        .snippet
        .as_ref()
        .map_or_else(String::new, |snippet| format!("  {}\n", show::line(snippet, 240)));
    format!(
        "- thread:{} {title} · {}, {}, {} events, changed {}\n{snippet}",
        thread.id,
        thread.agent,
        thread.opened_by,
        thread.events,
        show::time(thread.updated_at)
    )
}
