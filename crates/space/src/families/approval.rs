//! `approval:`: what waits for a person, and what was answered.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::address::{Address, Family};
use pentad_model::approval::{Approval, ApprovalState};
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::Read;
use pentad_program::{ApprovalFilter, Store};
use serde_json::{Value, json};

use super::misdirected;
use crate::family::AddressFamily;
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 50;
const STATES: [&str; 6] = ["open", "granted", "used", "denied", "expired", "void"];

/// Serves `approval:` and one approval.
pub(crate) struct ApprovalFamily {
    store: Arc<dyn Store>,
}

impl ApprovalFamily {
    pub(crate) const fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn list(&self, options: &Options) -> Result<Product, Refusal> {
        let state = options.text("state").map(str::to_owned);
        if let Some(word) = &state
            && !STATES.contains(&word.as_str())
        {
            let message = format!("'{}' is no state of an approval.", show::line(word, 40));
            return Err(Refusal::new(RefusalKind::BadRequest, "state", message).supported(STATES));
        }
        let limit = options.limit(DEFAULT_LIMIT);
        let filter = ApprovalFilter {
            state,
            limit: limit + 1,
        };
        let mut found = self
            .store
            .approvals(filter)
            .await
            .map_err(|error| from_store("approval:", &error))?;
        let more = found.len() > limit;
        found.truncate(limit);
        let mut text = "# Approvals, newest first\n\n".to_owned();
        for approval in &found {
            text.push_str(&format!(
                "- approval:{} {} · {} for {} · {}, {}\n",
                approval.id,
                show::code(&approval.subject.act),
                approval.subject.actor,
                approval.subject.agent,
                state_of(approval.state),
                show::time(approval.created_at)
            ));
        }
        if found.is_empty() {
            text.push_str("None.\n");
        }
        if more {
            text.push_str("\nThere are more; narrow with options.state or raise options.limit.\n");
        }
        Ok(Product::text(text, "approval:").value(json!({"approvals": found, "more": more})))
    }
}

#[async_trait]
impl AddressFamily for ApprovalFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::Approvals]
    }

    async fn read(&self, _scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        match &read.address {
            Address::Approval(None) => self.list(&read.options).await,
            Address::Approval(Some(ending)) => {
                let subject = format!("approval:{ending}");
                self.store
                    .find_approval(ending)
                    .await
                    .map(|approval| one(&approval))
                    .map_err(|error| {
                        from_store(&subject, &error).next_step("read approval: lists the approvals")
                    })
            }
            other => Err(misdirected(other)),
        }
    }
}

fn state_of(state: ApprovalState) -> String {
    match state {
        ApprovalState::Granted(scope) => format!("granted ({})", scope.word()),
        other => other.word().to_owned(),
    }
}

fn one(approval: &Approval) -> Product {
    let address = format!("approval:{}", approval.id);
    let mut text = format!(
        "# {}\n\n{address} · {}\n\n- asked by: {} for agent {}, {}\n- thread: thread:{}\n",
        show::code(&approval.subject.act),
        state_of(approval.state),
        approval.subject.actor,
        approval.subject.agent,
        show::time(approval.created_at),
        approval.thread
    );
    if let Some(run) = approval.run {
        text.push_str(&format!("- run: run:{run}\n"));
    }
    if let Some(by) = &approval.answered_by {
        let at = approval
            .answered_at
            .map_or_else(String::new, |at| format!(", {}", show::time(at)));
        text.push_str(&format!("- answered by: {by}{at}\n"));
    }
    if approval.run_at_most {
        text.push_str("- a grant lasts for one run at most\n");
    }
    text.push_str(&format!(
        "\n{}\n",
        pentad_model::text::visible(&approval.question)
    ));
    match approval.state {
        ApprovalState::Open => text.push_str(&format!(
            "\nNext: a person answers with `pentad approvals grant {}` or `pentad approvals deny {}`.\n",
            approval.id, approval.id
        )),
        ApprovalState::Granted(_) => text.push_str("\nNext: repeat the call; it runs now.\n"),
        ApprovalState::Used | ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Void => {}
    }
    let value = serde_json::to_value(approval).unwrap_or(Value::Null);
    Product::text(text, address).value(value)
}
