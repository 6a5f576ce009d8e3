//! How large the tools of servers are that are about to be imported.

use std::collections::BTreeMap;

use anyhow::Context as _;
use pentad_import::{Fate, Plan, SchemaSize, ToolSchemas};
use pentad_keeper::{Config, Home, Secrets};
use pentad_program::{Readiness, ToolSource};
use toml_edit::DocumentMut;

use super::{Lifetime, Opened, open};
use crate::args::Globals;
use crate::house::House;

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
/// # Errors
/// Fails when a home cannot be opened; a server that does not start is not known, and that is no failure.
pub async fn sizes(home: &Home, globals: &Globals, plan: &Plan, start: bool) -> anyhow::Result<Sizes> {
    let mut sizes = Sizes::default();
    let reused: Vec<&str> = plan
        .servers
        .iter()
        .filter_map(|one| match &one.fate {
            Fate::Reused { name } => Some(name.as_str()),
            Fate::Added { .. } | Fate::Stays { .. } | Fate::Pentad => None,
        })
        .collect();
    if !reused.is_empty() {
        let house = House::open(globals).await?;
        learn(house.opened(), reused, start, &mut sizes).await;
        house.close().await;
    }
    if start {
        measure(home, plan, &mut sizes).await?;
    }
    Ok(sizes)
}

/// Starts the new servers in a home of their own that is gone afterwards, so that nothing is configured yet.
async fn measure(home: &Home, plan: &Plan, sizes: &mut Sizes) -> anyhow::Result<()> {
    let cache = home.cache();
    let dir = tempfile::Builder::new()
        .prefix("measure-")
        .tempdir_in(&cache)
        .with_context(|| format!("{} cannot be written", cache.display()))?;
    let scratch = Home::locate(Some(dir.path()), None, None)?;
    scratch.prepare()?;
    let mut document = DocumentMut::new();
    let mut names = Vec::new();
    for one in &plan.servers {
        if let Fate::Added { name, entry, .. } = &one.fate
            && !entry.disabled
        {
            document["servers"][name] = toml_edit::Item::Table(entry.table());
            names.push(name.as_str());
        }
    }
    let text = document.to_string();
    let (own, theirs) = (Secrets::of(home), Secrets::of(&scratch));
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
    let config = Config::parse(&text, &scratch.config_file())?;
    let opened = open(&scratch, &config, Lifetime::Once).await?;
    learn(&opened, names, true, sizes).await;
    opened.close().await;
    dir.close()
        .with_context(|| format!("{} cannot be cleared", cache.display()))
}

async fn learn(opened: &Opened, names: Vec<&str>, start: bool, sizes: &mut Sizes) {
    let learn_one = |name: String| async move {
        if start {
            opened.catalog.refresh_source(&name).await;
        }
        let source = opened.catalog.source(&name)?;
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
