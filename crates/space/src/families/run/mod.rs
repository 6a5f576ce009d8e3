//! `run:…`: executions, their journals, outputs and artifacts.

mod journal;
mod list;
mod output;
mod record;

pub(super) use self::list::thread_option;

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family, RunName, RunPart};
use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::run::Run;
use pentad_model::verb::Read;
use pentad_program::Store;

use super::misdirected;
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::trouble::from_store;

/// Serves `run:` and everything below a run.
pub(crate) struct RunFamily {
    store: Arc<dyn Store>,
    limits: SpaceLimits,
}

impl RunFamily {
    pub(crate) const fn new(store: Arc<dyn Store>, limits: SpaceLimits) -> Self {
        Self { store, limits }
    }

    async fn find(&self, name: &RunName) -> Result<Run, Refusal> {
        self.store.find_run(name.name()).await.map_err(|error| {
            from_store(&format!("run:{name}"), &error)
                .next_step("read run: lists the runs with their ids and names")
        })
    }
}

#[async_trait]
impl AddressFamily for RunFamily {
    fn families(&self) -> &'static [Family] {
        &[
            Family::RunList,
            Family::Run,
            Family::RunJournal,
            Family::RunOutput,
        ]
    }

    async fn read(&self, scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        let Address::Run(name, part) = &read.address else {
            return Err(misdirected(&read.address));
        };
        let Some(name) = name else {
            return list::read(self.store.as_ref(), &read.options).await;
        };
        let run = self.find(name).await?;
        match part {
            RunPart::Record => Ok(record::record(&run)),
            RunPart::Artifacts => Ok(record::artifacts(&run)),
            RunPart::Journal => journal::read(self.store.as_ref(), &run, &read.options).await,
            RunPart::Output => output::read(self, scene, &run, &read.options).await,
            RunPart::Artifact(artifact) => {
                output::artifact(self, scene, &run, artifact.as_str(), &read.options).await
            }
        }
    }
}
