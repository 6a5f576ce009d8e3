//! A run's output and its artifacts, streamed from where they are kept.

use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::run::{Run, Stored};
use pentad_model::select::Selection;
use serde_json::json;

use super::RunFamily;
use super::record::STREAMS;
use crate::blocking::blocking;
use crate::families::events::{error_of, status_of};
use crate::present::{About, examine_path, select_limits};
use crate::scene::Scene;
use crate::trouble::from_store;

pub(super) async fn read(
    family: &RunFamily,
    scene: &Scene,
    run: &Run,
    options: &Options,
) -> Result<Product, Refusal> {
    let address = format!("run:{}/output", run.id);
    let wanted = options.text("stream");
    let names: &[&str] = match &wanted {
        Some(stream) => std::slice::from_ref(stream),
        None => &["output", "stdout"],
    };
    let found = names
        .iter()
        .find_map(|name| run.stored.get(*name).map(|stored| (*name, stored)));
    if let Some((name, stored)) = found {
        return show(family, scene, run, (name, stored), address, options).await;
    }
    if wanted.is_none()
        && let Some(output) = &run.output
    {
        let text = match output.as_str() {
            Some(text) => text.to_owned(),
            None => serde_json::to_string_pretty(output).unwrap_or_default(),
        };
        return Ok(Product::text(text, address).value(json!({"run": run.id, "output": output})));
    }
    Err(nothing(run, &address, wanted))
}

fn nothing(run: &Run, address: &str, wanted: Option<&str>) -> Refusal {
    let what = wanted.unwrap_or("output");
    let message = format!(
        "{address}: this run has no {what}; it is {}{}.",
        status_of(run.status),
        error_of(run.error.as_ref())
    );
    let kept: Vec<&str> = STREAMS
        .into_iter()
        .filter(|name| run.stored.contains_key(*name))
        .collect();
    let refusal = Refusal::new(RefusalKind::NotFound, address, message).supported(kept);
    if run.status.is_settled() {
        refusal.next_step(format!("read run:{} shows its record", run.id))
    } else {
        refusal.next_step(format!(
            "its output is kept when it ends; read run:{}/journal shows how far it is",
            run.id
        ))
    }
}

pub(super) async fn artifact(
    family: &RunFamily,
    scene: &Scene,
    run: &Run,
    name: &str,
    options: &Options,
) -> Result<Product, Refusal> {
    let address = format!("run:{}/artifacts/{name}", run.id);
    let Some(stored) = run.stored.get(name) else {
        let kept = run
            .stored
            .keys()
            .filter(|key| !STREAMS.contains(&key.as_str()))
            .cloned();
        let message = format!("run:{} has no artifact '{name}'.", run.id);
        return Err(Refusal::new(RefusalKind::NotFound, address, message).supported(kept));
    };
    show(family, scene, run, (name, stored), address, options).await
}

async fn show(
    family: &RunFamily,
    scene: &Scene,
    run: &Run,
    (name, stored): (&str, &Stored),
    address: String,
    options: &Options,
) -> Result<Product, Refusal> {
    let selection = Selection::parse(options)?;
    let path = family
        .store
        .blob_path(&stored.blob)
        .await
        .map_err(|error| from_store(&address, &error))?;
    let mut about = About::new(address);
    about.name = Some(name.to_owned());
    about.mime = Some(stored.mime.clone());
    about.extra.insert("run".to_owned(), json!(run.id));
    about.extra.insert("name".to_owned(), json!(name));
    about
        .extra
        .insert("truncated".to_owned(), json!(stored.truncated));
    let (select, limits) = (select_limits(scene, &family.limits), family.limits);
    let examined =
        blocking(move || examine_path(&path, about, &selection, &select, limits.image_bytes)).await?;
    examined
        .product(family.store.as_ref(), scene, &family.limits)
        .await
}
