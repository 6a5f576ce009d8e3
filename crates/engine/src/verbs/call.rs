//! `call`: a tool by name, with its contract on first touch.

use std::sync::Arc;

use pentad_catalog::listing::readiness_words;
use pentad_catalog::{Entry, Resolution, ValidationError, Visibility, unfit, unknown_tool};
use pentad_model::event::EventBody;
use pentad_model::outcome::Product;
use pentad_model::verb::Call;
use pentad_model::{Refusal, RefusalKind};
use pentad_program::Readiness;
use serde_json::{Map, Value, json};

use super::execute::{self, Job};
use crate::Engine;
use crate::invoke::{Context, store_refusal};

pub(crate) async fn call(engine: &Arc<Engine>, context: &Context, call: Call) -> Result<Product, Refusal> {
    let entry = match engine.find_tool(context, &call.tool).await? {
        Found::Tool(entry) => entry,
        Found::Contract(product) => return Ok(product),
    };
    if let Some(contract) = engine.touch(context, &entry, &call.input).await? {
        return Ok(contract);
    }
    let job = Job {
        entry,
        input: call.input,
        title: None,
        name: None,
    };
    engine.judge_tool(context, &job).await?;
    execute::execute(engine, context, job).await
}

/// What a tool's name led to.
pub(crate) enum Found {
    /// A tool that can be called.
    Tool(Entry),
    /// The contract of a verb: nothing to call, but an answer.
    Contract(Product),
}

impl Engine {
    /// Returns what the caller may see of the catalog.
    pub(crate) fn visibility(&self, context: &Context) -> Visibility {
        let denied = self.parts.gate.policy().denied_for(&context.caller.actor);
        Visibility {
            denied,
            ..Visibility::of(context.authority.grants.clone())
        }
    }

    /// Resolves a tool's name.
    pub(crate) async fn find_tool(&self, context: &Context, name: &str) -> Result<Found, Refusal> {
        let visible = self.visibility(context);
        let catalog = &self.parts.catalog;
        let mut resolution = catalog.resolve(name, &visible);
        let mut learned = Ok(None);
        if let Resolution::SourceUnknownTools { source, .. } = &resolution {
            self.record(context, None).await.map_err(|e| store_refusal(&e))?;
            // The server was never seen: its tools become known by starting it, once, within its own limit.
            learned = catalog.refresh_source(source, context.environment()).await;
            resolution = catalog.resolve(name, &visible);
        }
        match resolution {
            Resolution::Found(entry) => Ok(Found::Tool(entry)),
            Resolution::Verb { verb, .. } => Ok(Found::Contract(crate::tools::verb_contract(verb))),
            Resolution::Ambiguous(candidates) => Err(Refusal::new(
                RefusalKind::Conflict,
                name,
                format!("Several sources have a tool '{name}'; name one in full."),
            )
            .supported(candidates.iter().map(ToString::to_string))),
            Resolution::Unknown { nearest } => Err(unknown_tool(name, &nearest)),
            Resolution::SourceUnknownTools { source, status } => {
                // What kept it from even being started is known to nobody else.
                if let (Readiness::Configured, Err(refusal)) = (&status.readiness, learned) {
                    return Err(refusal);
                }
                let state = readiness_words(&status.readiness);
                let message = format!("The tools of '{source}' are not known yet: {state}.");
                Err(Refusal::new(RefusalKind::Unavailable, name, message)
                    .next_step(format!("pentad doctor shows why; read ~/tools/{source}/ later")))
            }
        }
    }

    /// Shows the contract instead of calling when a model has not seen it, or when the input does not fit.
    async fn touch(
        &self,
        context: &Context,
        entry: &Entry,
        input: &Map<String, Value>,
    ) -> Result<Option<Product>, Refusal> {
        let errors = self.parts.catalog.validate(&entry.document, input);
        let model = context.caller.actor.is_model();
        if !model {
            return if errors.is_empty() {
                Ok(None)
            } else {
                Err(unfit(&entry.document.tool, &errors))
            };
        }
        let runs_at_once = entry.document.is_trusted_read_only() && !self.parts.strict_touch;
        if errors.is_empty() && runs_at_once {
            return Ok(None);
        }
        let tool = entry.document.tool.to_string();
        let cid = entry.document.cid().unwrap_or_default();
        let promoted = self
            .parts
            .store
            .promoted(context.thread.id)
            .await
            .map_err(|e| store_refusal(&e))?;
        let seen = promoted.get(&tool).is_some_and(|known| *known == cid);
        if errors.is_empty() && seen {
            return Ok(None);
        }
        if !seen {
            self.promote(context, &tool, &cid).await?;
        }
        Ok(Some(self.contract_product(entry, &errors)))
    }

    /// Journals that a thread's model has a tool's contract before it.
    pub(crate) async fn promote(&self, context: &Context, tool: &str, cid: &str) -> Result<(), Refusal> {
        let body = EventBody::Promoted {
            tool: tool.to_owned(),
            cid: cid.to_owned(),
        };
        self.record(context, Some(context.event(None, body)))
            .await
            .map_err(|e| store_refusal(&e))
    }

    fn contract_product(&self, entry: &Entry, errors: &[ValidationError]) -> Product {
        let mut text = String::new();
        if errors.is_empty() {
            text.push_str(
                "Not called yet: this is the tool's contract. Call again with an input that fits it.\n\n",
            );
        } else {
            text.push_str("Not called: the input does not fit the contract below.\n");
            for error in errors {
                text.push_str(&format!("- {error}\n"));
            }
            text.push('\n');
        }
        text.push_str(
            &self
                .parts
                .catalog
                .contract(&entry.document, Some(&entry.source.status())),
        );
        let value = json!({
            "called": false,
            "tool": entry.document.tool.to_string(),
            "validationErrors": errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        Product {
            contract: true,
            ..Product::text(text, entry.document.tool.address())
        }
        .value(value)
    }
}
