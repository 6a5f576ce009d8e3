//! `run:…`: executions, their trees, journals, outputs and artifacts, and how they are steered.

mod journal;
mod list;
mod output;
mod record;
mod steer;
mod steps;
mod tree;
mod waits;
mod why;

pub(super) use self::list::thread_option;
pub(super) use self::steps::line as step_line;

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family, RunName, RunPart};
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::run::Run;
use pentad_model::verb::{Read, Write};
use pentad_program::Store;

use super::misdirected;
use crate::durable::DurableRuns;
use crate::family::AddressFamily;
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::trouble::from_store;

/// Serves `run:` and everything below a run.
pub(crate) struct RunFamily {
    store: Arc<dyn Store>,
    durable: Arc<DurableRuns>,
    limits: SpaceLimits,
}

impl RunFamily {
    pub(crate) const fn new(store: Arc<dyn Store>, durable: Arc<DurableRuns>, limits: SpaceLimits) -> Self {
        Self {
            store,
            durable,
            limits,
        }
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
        let (store, runs) = (self.store.as_ref(), self.durable.store());
        let tree = read.options.flag("tree");
        let Some(name) = name else {
            let listing = list::Listing::of(store, &read.options).await?;
            return if tree {
                tree::list(store, self.durable.required("run:")?, listing, scene.now).await
            } else {
                list::read(store, listing).await
            };
        };
        let run = self.find(name).await?;
        if tree {
            return match part {
                RunPart::Record => {
                    let subject = format!("run:{}", run.id);
                    tree::one(self.durable.required(&subject)?, run, scene.now).await
                }
                _ => {
                    let message = "The tree of a run is read at the run itself.";
                    Err(Refusal::new(RefusalKind::BadRequest, "tree", message)
                        .next_step(format!("read run:{} with the option tree", run.id)))
                }
            };
        }
        match part {
            RunPart::Record => {
                let around = match runs {
                    Some(runs) => Some(
                        record::Around::of(runs, &run)
                            .await
                            .map_err(|error| from_store(&format!("run:{}", run.id), &error))?,
                    ),
                    None => None,
                };
                Ok(record::record(&run, around.as_ref(), scene.now))
            }
            RunPart::Why => why::read(store, runs, &run, scene.now).await,
            RunPart::Artifacts => Ok(record::artifacts(&run)),
            RunPart::Journal => journal::read(store, runs, &run, &read.options).await,
            RunPart::Output => output::read(self, scene, &run, &read.options).await,
            RunPart::Artifact(artifact) => {
                output::artifact(self, scene, &run, artifact.as_str(), &read.options).await
            }
        }
    }

    async fn write(&self, scene: &Scene, write: &Write) -> Result<Product, Refusal> {
        match &write.address {
            Address::Run(Some(name), RunPart::Record) => {
                let run = self.find(name).await?;
                steer::write(&self.durable, scene, &run, write).await
            }
            other => Err(misdirected(other)),
        }
    }
}
