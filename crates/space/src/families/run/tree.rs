//! Runs as trees: who started whom, where each stands, and what it waits for.

use std::collections::{BTreeMap, HashSet};

use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::run::{Run, RunStatus};
use pentad_model::{RunId, Timestamp};
use pentad_program::{RunStore, Store, StoreError};
use serde_json::{Map, Value, json};

use super::list::{self, Listing};
use super::{record, waits};
use crate::families::events::{short_error_of, status_of};
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 10;
/// Runs that one answer shows.
const NODES: usize = 500;
/// Children of one run that are looked at.
const LOOKED_AT: usize = 2_000;
/// Children of one run that a list of trees shows, and that a single tree shows.
const LISTED: usize = 10;
const SHOWN: usize = 200;
/// Generations that are shown; a runtime permits fewer.
const DEPTH: usize = 64;

/// A run and what is below it.
struct Node {
    run: Run,
    /// What it waits for, in a few words.
    waits: Vec<String>,
    children: Vec<Self>,
    /// Children that are not shown.
    left: Vec<Run>,
    /// Whether there are more children than were looked at.
    more: bool,
}

/// Reads trees within limits.
struct Grower<'a> {
    runs: &'a dyn RunStore,
    children: usize,
    /// How many more runs may be shown.
    room: usize,
    seen: HashSet<RunId>,
}

impl<'a> Grower<'a> {
    fn new(runs: &'a dyn RunStore, children: usize) -> Self {
        Self {
            runs,
            children,
            room: NODES,
            seen: HashSet::new(),
        }
    }

    async fn grow(&mut self, run: Run, depth: usize) -> Result<Node, StoreError> {
        self.room = self.room.saturating_sub(1);
        self.seen.insert(run.id);
        let waits = if matches!(run.status, RunStatus::Waiting(_)) {
            let open = self.runs.waits(run.id).await?;
            open.iter()
                .map(|wait| waits::short(&wait.what, wait.due))
                .collect()
        } else {
            Vec::new()
        };
        let mut found = self.runs.children(run.id, LOOKED_AT + 1).await?;
        let more = found.len() > LOOKED_AT;
        found.truncate(LOOKED_AT);
        let (chosen, left) = self.choose(found, depth);
        let mut children = Vec::with_capacity(chosen.len());
        for child in chosen {
            children.push(Box::pin(self.grow(child, depth + 1)).await?);
        }
        Ok(Node {
            run,
            waits,
            children,
            left,
            more,
        })
    }

    /// Chooses the children to show: those that have not ended first, then those that ended badly; in their order.
    fn choose(&self, found: Vec<Run>, depth: usize) -> (Vec<Run>, Vec<Run>) {
        // Trees have no circles; a journal that says otherwise is not followed round and round.
        let found: Vec<Run> = found
            .into_iter()
            .filter(|child| !self.seen.contains(&child.id))
            .collect();
        let room = if depth >= DEPTH {
            0
        } else {
            self.room.min(self.children)
        };
        if found.len() <= room {
            return (found, Vec::new());
        }
        let rank = |run: &Run| match run.status {
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting(_) => 0,
            RunStatus::Failed | RunStatus::Lost => 1,
            RunStatus::Canceled | RunStatus::Succeeded => 2,
        };
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|index| found.get(*index).map(rank));
        let chosen: HashSet<usize> = order.into_iter().take(room).collect();
        let (mut shown, mut left) = (Vec::new(), Vec::new());
        for (index, run) in found.into_iter().enumerate() {
            if chosen.contains(&index) {
                shown.push(run);
            } else {
                left.push(run);
            }
        }
        (shown, left)
    }
}

impl Node {
    /// Adds this run and what is below it, indented.
    fn write(&self, text: &mut String, level: usize, now: Timestamp) {
        let run = &self.run;
        let indent = "  ".repeat(level);
        let name = run
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!(" ({name})"));
        let status = match (run.status, self.waits.split_first()) {
            (RunStatus::Waiting(_), Some((first, []))) => format!("waiting for {first}"),
            (RunStatus::Waiting(_), Some((first, rest))) => {
                format!("waiting for {first} and {} more", rest.len())
            }
            (status, _) => status_of(status),
        };
        let ending = if run.canceling && !run.status.is_settled() {
            ", asked to end"
        } else {
            ""
        };
        text.push_str(&format!(
            "{indent}- run:{}{name} {} · {status}{ending}{} · {} · {}\n",
            run.id,
            show::line(&run.title, 100),
            short_error_of(run.error.as_ref()),
            age(run, now),
            run.caller.actor
        ));
        for child in &self.children {
            child.write(text, level + 1, now);
        }
        if !self.left.is_empty() {
            let least = if self.more { "more than " } else { "" };
            text.push_str(&format!(
                "{indent}  - {least}{} more: {}\n",
                self.left.len(),
                record::tally(&self.left)
            ));
        }
    }

    fn value(&self) -> Value {
        let mut value = record::brief(&self.run);
        if let Some(map) = value.as_object_mut() {
            map.insert("waits".to_owned(), json!(self.waits));
            let children: Vec<Value> = self.children.iter().map(Self::value).collect();
            map.insert("children".to_owned(), Value::Array(children));
            let mut left: BTreeMap<&str, usize> = BTreeMap::new();
            for run in &self.left {
                *left.entry(run.status.word()).or_default() += 1;
            }
            map.insert("leftOut".to_owned(), json!(left));
        }
        value
    }
}

/// Returns how long it took, or how old it is.
fn age(run: &Run, now: Timestamp) -> String {
    if run.status.is_settled() {
        format!(
            "took {}, {} ago",
            show::span(run.created_at, run.updated_at),
            show::span(run.updated_at, now)
        )
    } else {
        format!("{} old", show::span(run.created_at, now))
    }
}

/// Reads a run and everything below it.
pub(super) async fn one(runs: &dyn RunStore, run: Run, now: Timestamp) -> Result<Product, Refusal> {
    let address = format!("run:{}", run.id);
    let title = show::line(&run.title, 200);
    let node = Grower::new(runs, SHOWN)
        .grow(run, 0)
        .await
        .map_err(|error| from_store(&address, &error))?;
    let mut text = format!("# Tree of {title}\n\n");
    node.write(&mut text, 0, now);
    Ok(Product::text(text, address).value(node.value()))
}

/// Lists trees: each stands where the newest of its runs stands that the filters match.
pub(super) async fn list(
    store: &dyn Store,
    runs: &dyn RunStore,
    listing: Listing,
    now: Timestamp,
) -> Result<Product, Refusal> {
    let limit = listing.limit.unwrap_or(DEFAULT_LIMIT);
    let failed = |error: StoreError| from_store("run:", &error);
    let mut grower = Grower::new(runs, LISTED);
    let mut nodes: Vec<Node> = Vec::new();
    let mut pages = listing.pages(store);
    let mut mark = None;
    let mut more = false;
    while let Some(run) = pages.next().await.map_err(failed)? {
        let root = root_of(store, &run).await.map_err(failed)?;
        if grower.seen.contains(&root.id) {
            mark = Some(run.id);
            continue;
        }
        if nodes.len() >= limit || (grower.room == 0 && !nodes.is_empty()) {
            more = true;
            break;
        }
        mark = Some(run.id);
        if was_listed(runs, &listing, &root).await.map_err(failed)? {
            grower.seen.insert(root.id);
            continue;
        }
        nodes.push(grower.grow(root, 0).await.map_err(failed)?);
    }
    let mut text = "# Trees of runs, newest first\n\n".to_owned();
    for node in &nodes {
        node.write(&mut text, 0, now);
    }
    if nodes.is_empty() {
        text.push_str("None.\n");
    }
    let trees: Vec<Value> = nodes.iter().map(Node::value).collect();
    let mut value = json!({"trees": trees, "more": more});
    if let Some(mark) = mark.filter(|_| more) {
        let mut again: Map<String, Value> = listing.given();
        again.insert("tree".to_owned(), json!(true));
        list::go_on(&mut text, &mut value, again, limit, mark);
    }
    Ok(Product::text(text, "run:").value(value))
}

/// Returns the first run of the tree that a run belongs to.
async fn root_of(store: &dyn Store, run: &Run) -> Result<Run, StoreError> {
    if let Some(root) = run.terms.root {
        return store.run(root).await;
    }
    let mut run = run.clone();
    for _ in 0..DEPTH {
        let Some(parent) = run.parent else { break };
        run = store.run(parent).await?;
    }
    Ok(run)
}

/// Tells whether an earlier page has shown a tree: one of its runs that the filters match is newer than the mark.
async fn was_listed(runs: &dyn RunStore, listing: &Listing, root: &Run) -> Result<bool, StoreError> {
    let Some(before) = listing.before else {
        return Ok(false);
    };
    let mut open = vec![root.clone()];
    let mut looked = 0;
    while let Some(run) = open.pop() {
        if run.id >= before && listing.wants(&run) {
            return Ok(true);
        }
        looked += 1;
        if looked < LOOKED_AT {
            open.extend(runs.children(run.id, LOOKED_AT).await?);
        }
    }
    Ok(false)
}
