//! The registry of address families.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pentad_model::address::Family;
use pentad_model::options::form_name;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::{Read, Write};
use pentad_program::{RunControl, RunStore, Store};

use crate::durable::DurableRuns;
use crate::families::self_agent::SelfFacts;
use crate::families::{activity, agents, approval, attachment, file, memory, run, self_agent, thread, web};
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::web::{WebClient, WebPolicy};

/// What a space is made of.
pub struct SpaceParts {
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The folder with one folder of memory per agent.
    pub memory_root: PathBuf,
    /// The folder with `<agent>.md` files.
    pub agents_dir: PathBuf,
    /// Files and folders that `file:` never reaches; the reading agent's own memory is excepted.
    pub forbidden: Vec<PathBuf>,
    /// Limits of reads and writes.
    pub limits: SpaceLimits,
    /// How pages are fetched.
    pub web: WebPolicy,
    /// What `~/self` says about this home.
    pub facts: SelfFacts,
}

/// Everything with an address.
pub struct Space {
    families: BTreeMap<Family, Arc<dyn AddressFamily>>,
    runs: Arc<DurableRuns>,
}

impl Space {
    /// Returns a space of the families that are built in. Tools, servers, triggers and channels are registered by
    /// whoever has them.
    #[must_use]
    pub fn new(parts: SpaceParts) -> Self {
        let SpaceParts {
            store,
            memory_root,
            agents_dir,
            forbidden,
            limits,
            web,
            facts,
        } = parts;
        let web = Arc::new(WebClient::new(web));
        let memory = memory::MemoryRoot::new(memory_root);
        let runs = Arc::new(DurableRuns::default());
        let mut space = Self {
            families: BTreeMap::new(),
            runs: Arc::clone(&runs),
        };
        space.register(Arc::new(memory::MemoryFamily::new(
            memory.clone(),
            Arc::clone(&store),
            Arc::clone(&web),
            limits,
        )));
        space.register(Arc::new(file::FileFamily::new(
            Arc::clone(&store),
            file::Forbidden::new(forbidden, &memory),
            limits,
        )));
        space.register(Arc::new(thread::ThreadFamily::new(Arc::clone(&store), limits)));
        space.register(Arc::new(run::RunFamily::new(
            Arc::clone(&store),
            Arc::clone(&runs),
            limits,
        )));
        space.register(Arc::new(activity::ActivityFamily::new(
            Arc::clone(&store),
            runs,
            limits,
        )));
        space.register(Arc::new(approval::ApprovalFamily::new(Arc::clone(&store))));
        space.register(Arc::new(attachment::AttachmentFamily::new(
            Arc::clone(&store),
            limits,
        )));
        space.register(Arc::new(self_agent::SelfFamily::new(memory, facts, limits)));
        space.register(Arc::new(agents::AgentFamily::new(agents_dir)));
        space.register(Arc::new(web::WebFamily::new(web, store, limits)));
        space
    }

    /// Adds a family; it replaces an earlier one of the same addresses.
    pub fn register(&mut self, family: Arc<dyn AddressFamily>) {
        let names = family.families();
        let shared = std::iter::repeat_n(family, names.len());
        self.families.extend(names.iter().copied().zip(shared));
    }

    /// Says where the steps and waits of runs are kept. Without it, runs have their records and events alone.
    pub fn attach_run_store(&self, store: Arc<dyn RunStore>) {
        self.runs.keep(store);
    }

    /// Says who executes runs; it is not kept alive by that. Without it, and when it is gone, runs cannot be steered.
    pub fn attach_run_control(&self, control: &Arc<dyn RunControl>) {
        self.runs.steer(control);
    }

    /// Reads an address.
    ///
    /// # Errors
    /// Refuses as the family does; families without an implementation are not available (501).
    pub async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        self.family(read.address.family(), &read.address.to_string())?
            .read(scene, read)
            .await
    }

    /// Writes an address. A dry run is one of either the scene or the request.
    ///
    /// # Errors
    /// Refuses as the family does; families without an implementation are not available (501).
    pub async fn write(&self, scene: &Scene, write: &Write) -> Result<Product, Refusal> {
        self.family(write.address.family(), &write.address.to_string())?
            .write(scene, write)
            .await
    }

    fn family(&self, family: Family, subject: &str) -> Result<&Arc<dyn AddressFamily>, Refusal> {
        self.families
            .get(&family)
            .ok_or_else(|| self.missing(family, subject))
    }

    fn missing(&self, family: Family, subject: &str) -> Refusal {
        let form = form_name(family);
        let what = match family {
            Family::Triggers => "triggers",
            Family::Channels => "channels",
            Family::Hypermedia => "hypermedia (hm:// and ipfs://)",
            Family::Tool | Family::ToolList => "the tool catalog",
            Family::Mcp => "connected MCP servers",
            _ => form,
        };
        let message = format!("{form} is a known address, but this build has no {what}.");
        Refusal::new(RefusalKind::NotAvailable, subject, message)
            .supported(self.families.keys().map(|family| form_name(*family)))
    }
}
