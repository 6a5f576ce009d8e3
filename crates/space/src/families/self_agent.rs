//! `~/self`: who reads, where, and what it may do.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pentad_model::address::{Address, Family};
use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::verb::Read;
use serde_json::json;

use super::memory::MemoryRoot;
use super::misdirected;
use crate::blocking::blocking;
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_io;

/// What `~/self` says about this home.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SelfFacts {
    /// Name and version of this build.
    pub build: String,
    /// Limits by name, already worded, for example `view` → `32 KiB`.
    pub limits: BTreeMap<String, String>,
}

/// Serves `~/self`.
pub(crate) struct SelfFamily {
    memory: MemoryRoot,
    facts: SelfFacts,
    limits: SpaceLimits,
}

impl SelfFamily {
    pub(crate) const fn new(memory: MemoryRoot, facts: SelfFacts, limits: SpaceLimits) -> Self {
        Self {
            memory,
            facts,
            limits,
        }
    }
}

#[async_trait]
impl AddressFamily for SelfFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::SelfAgent]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        if !matches!(read.address, Address::SelfAgent) {
            return Err(misdirected(&read.address));
        }
        let (memory, agent) = (self.memory.clone(), scene.agent.clone());
        let used =
            blocking(move || memory.usage(&agent).map_err(|error| from_io("~/memory/", &error))).await?;
        Ok(self.product(scene, used))
    }
}

impl SelfFamily {
    fn product(&self, scene: &Scene, used: u64) -> Product {
        let caller = match &scene.caller.on_behalf_of {
            Some(other) => format!("{} for {other}", scene.caller.actor),
            None => scene.caller.actor.to_string(),
        };
        let mut text = format!("# Agent {}\n\n", scene.agent);
        let mut fact = |name: &str, value: &str| text.push_str(&format!("- {name}: {value}\n"));
        fact("caller", &caller);
        fact("thread", &format!("thread:{}", scene.thread));
        if let Some(run) = scene.run {
            fact("run", &format!("run:{run}"));
        }
        fact(
            "workspace",
            &show::code(&scene.workspace.cwd.display().to_string()),
        );
        if let Some(project) = &scene.workspace.project_root {
            let trust = if scene.workspace.trusted {
                "trusted"
            } else {
                "not trusted"
            };
            fact(
                "project",
                &format!("{} ({trust})", show::code(&project.display().to_string())),
            );
        }
        let memory = format!(
            "{} of {} used; read ~/memory/ lists it",
            show::size(used),
            show::size(self.limits.memory_bytes)
        );
        fact("memory", &memory);
        fact("tools", "read ~/tools/ lists them");
        fact("build", &self.facts.build);
        let grants: Vec<String> = scene.grants.iter().map(ToString::to_string).collect();
        text.push_str("\nGrants, besides what the policy allows without asking:\n");
        for grant in &grants {
            text.push_str(&format!("- {}\n", show::code(grant)));
        }
        if grants.is_empty() {
            text.push_str("- none\n");
        }
        text.push_str("\nLimits:\n");
        for (name, limit) in &self.facts.limits {
            text.push_str(&format!("- {name}: {limit}\n"));
        }
        text.push_str(&format!(
            "- one file of the memory: {}\n- one attachment: {}\n",
            show::size(self.limits.memory_file_bytes),
            show::size(self.limits.attachment_bytes)
        ));
        let value = json!({
            "agent": scene.agent,
            "caller": scene.caller,
            "thread": scene.thread,
            "run": scene.run,
            "workspace": scene.workspace,
            "grants": scene.grants,
            "memory": {"usedBytes": used, "maxBytes": self.limits.memory_bytes},
            "build": self.facts.build,
            "limits": self.facts.limits,
        });
        Product::text(text, "~/self").value(value)
    }
}
