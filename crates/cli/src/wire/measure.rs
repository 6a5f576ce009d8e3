//! How large the tools of servers are that are about to be imported.

use std::collections::BTreeMap;

use anyhow::Context as _;
use pentad_import::{Fate, Plan, Planned, SchemaSize, ToolSchemas};
use pentad_keeper::{Config, Home, Secrets};
use pentad_program::{Readiness, ToolSource};
use toml_edit::{DocumentMut, Item, Table};

use super::{Lifetime, Opened, open};

/// What is known of servers by name.
#[derive(Debug, Default)]
pub struct Sizes(BTreeMap<String, SchemaSize>);

impl ToolSchemas for Sizes {
    fn size_of(&self, server: &str) -> Option<SchemaSize> {
        self.0.get(server).copied()
    }
}

/// Returns what is known about the tools of the servers of `plan`; with `start` each is started once, as it will run.
///
/// This happens in a home of its own that is gone afterwards: nothing is configured yet, and the real home may be at
/// work in another process.
///
/// # Errors
/// Fails when no such home can be made; a server that does not start is not known, and that is no failure.
pub async fn sizes(home: &Home, plan: &Plan, start: bool) -> anyhow::Result<Sizes> {
    let mut sizes = Sizes::default();
    let known = |one: &Planned| matches!(one.fate, Fate::Reused { .. });
    if !start && !plan.servers.iter().any(known) {
        return Ok(sizes);
    }
    let cache = home.cache();
    let dir = tempfile::Builder::new()
        .prefix("measure-")
        .tempdir_in(&cache)
        .with_context(|| format!("{} cannot be written", cache.display()))?;
    let scratch = Home::locate(Some(dir.path()), None, None)?;
    scratch.prepare()?;
    let text = configuration(home, plan)?;
    share_secrets(home, &scratch, plan, &text)?;
    let config = Config::parse(&text, &scratch.config_file())?;
    for name in config.servers.keys() {
        // A manifest counts only for the very launch that it was learned from, so a stale one does no harm.
        let manifest = format!("{name}.json");
        let _ = std::fs::copy(cache.join(&manifest), scratch.cache().join(&manifest));
    }
    let opened = open(&scratch, &config, Lifetime::Once).await?;
    learn(&opened, plan.active().collect(), start, &mut sizes).await;
    opened.close().await;
    dir.close()
        .with_context(|| format!("{} cannot be cleared", cache.display()))?;
    Ok(sizes)
}

/// Returns a configuration of the servers of `plan` alone, with what else decides how they run.
fn configuration(home: &Home, plan: &Plan) -> anyhow::Result<String> {
    let own = std::fs::read_to_string(home.config_file()).unwrap_or_default();
    let own: DocumentMut = own.parse()?;
    let mut document = DocumentMut::new();
    for key in ["limits", "env"] {
        if let Some(item) = own.get(key) {
            document.insert(key, item.clone());
        }
    }
    let mut servers = Table::new();
    for one in &plan.servers {
        match &one.fate {
            Fate::Added { name, entry, .. } => {
                servers.insert(name, Item::Table(entry.table()));
            }
            Fate::Reused { name } => {
                if let Some(item) = own.get("servers").and_then(|servers| servers.get(name)) {
                    servers.insert(name, item.clone());
                }
            }
            Fate::Stays { .. } | Fate::Pentad => {}
        }
    }
    document.insert("servers", Item::Table(servers));
    Ok(document.to_string())
}

/// Gives the secrets that `text` refers to, and the key that launches are known by, to the home for measuring.
fn share_secrets(home: &Home, scratch: &Home, plan: &Plan, text: &str) -> anyhow::Result<()> {
    let (own, theirs) = (Secrets::of(home), Secrets::of(scratch));
    for name in own.list()? {
        if text.contains(&format!("${{secret:{name}}}"))
            && let Some(value) = own.get(&name)?
        {
            theirs.set(&name, &value)?;
        }
    }
    for (name, value) in &plan.vault.fresh {
        theirs.set(name, value)?;
    }
    super::key::share(home, scratch)?;
    Ok(())
}

async fn learn(opened: &Opened, names: Vec<&str>, start: bool, sizes: &mut Sizes) {
    let catalog = &opened.desk.catalog;
    let learn_one = |name: String| async move {
        if start && let Err(refusal) = catalog.refresh_source(&name, None).await {
            tracing::debug!(server = %name, %refusal, "a server could not be asked for its tools");
        }
        let source = catalog.source(&name)?;
        let known = matches!(source.status().readiness, Readiness::Ready | Readiness::Indexed);
        known.then(|| (name, size(source.as_ref())))
    };
    let all = futures::future::join_all(names.into_iter().map(str::to_owned).map(learn_one));
    sizes.0.extend(all.await.into_iter().flatten());
}

/// Adds the tools up as a client would put them in front of its model.
fn size(source: &dyn ToolSource) -> SchemaSize {
    let documents = source.documents();
    let tools: Vec<serde_json::Value> = documents
        .iter()
        .map(|document| {
            serde_json::json!({
                "name": document.tool.name,
                "description": document.description,
                "inputSchema": document.input,
            })
        })
        .collect();
    SchemaSize {
        tools: tools.len() as u64,
        bytes: pentad_import::measure::bytes_of(&tools),
    }
}
