//! `plan`: replaces the thread's plan.

use std::sync::Arc;

use pentad_model::Refusal;
use pentad_model::event::EventBody;
use pentad_model::outcome::Product;
use pentad_model::plan::Plan;
use serde_json::json;

use crate::Engine;
use crate::invoke::{Context, store_refusal};

pub(crate) async fn plan(
    engine: &Arc<Engine>,
    context: &Context,
    mut plan: Plan,
) -> Result<Product, Refusal> {
    let store = &engine.parts.store;
    let known = store
        .plan(context.thread.id)
        .await
        .map_err(|e| store_refusal(&e))?;
    keep_evidence(&mut plan, known.as_ref());
    let event = context.event(None, EventBody::PlanSet { plan: plan.clone() });
    store
        .set_plan(context.thread.id, plan.clone(), vec![event])
        .await
        .map_err(|e| store_refusal(&e))?;
    let handle = context.thread.id.to_string();
    let open = plan.open_steps().count();
    let text = format!(
        "{}\n{} steps, {open} open. thread: {handle}",
        plan.to_markdown(),
        plan.steps.len()
    );
    let value = json!({"ok": true, "steps": plan.steps.len(), "open": open, "thread": handle});
    Ok(Product::text(text, format!("thread:{handle}")).value(value))
}

/// Evidence is the engine's: a rewrite keeps it while the step stays done, and can never bring its own.
fn keep_evidence(plan: &mut Plan, known: Option<&Plan>) {
    for step in &mut plan.steps {
        let before = known.and_then(|k| {
            k.steps
                .iter()
                .find(|s| s.id == step.id && s.status == step.status)
        });
        step.evidence = before.map(|s| s.evidence.clone()).unwrap_or_default();
    }
}
