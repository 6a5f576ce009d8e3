//! What a run did, step by step.

use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::run::Run;
use pentad_program::Store;
use serde_json::json;

use crate::families::events::{self, Detail, status_of};
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 100;

pub(super) async fn read(store: &dyn Store, run: &Run, options: &Options) -> Result<Product, Refusal> {
    let address = format!("run:{}/journal", run.id);
    let after = match options.text("after") {
        None => 0,
        Some(text) => text.trim().parse::<u64>().map_err(|_| {
            let message = "after takes the number of an event, as it stands in brackets.";
            Refusal::new(RefusalKind::BadRequest, "after", message)
        })?,
    };
    let limit = options.limit(DEFAULT_LIMIT);
    let page = store
        .run_events(run.id, after, limit)
        .await
        .map_err(|error| from_store(&address, &error))?;
    let mut text = format!(
        "# Journal of {}\n\n{address} · {}\n\n",
        show::line(&run.title, 200),
        status_of(run.status)
    );
    for event in &page.events {
        text.push_str(&events::markdown(event, Detail::Full));
    }
    if page.events.is_empty() {
        text.push_str("No events here.\n");
    }
    let mut value = json!({
        "run": run.id,
        "status": run.status.word(),
        "events": page.events.iter().map(events::value).collect::<Vec<_>>(),
        "more": page.more,
    });
    if page.more
        && let Some(last) = page.events.last()
    {
        let again = json!({"limit": limit, "after": last.seq.to_string()});
        text.push_str(&show::more(&address, &again));
        if let Some(map) = value.as_object_mut() {
            map.insert("next".to_owned(), again);
        }
    }
    Ok(Product::text(text, address).value(value))
}
