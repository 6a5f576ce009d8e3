//! What the journal is told about an invocation.

use std::sync::PoisonError;

use bytes::Bytes;
use pentad_model::event::{EventBody, NewEvent};
use pentad_model::text::prefix;
use pentad_model::{Outcome, Timestamp, Verb};
use pentad_program::{Durability, StoreError};
use serde_json::{Value, json};

use crate::Engine;
use crate::invoke::Context;

/// Longest text of a result that stands in its event.
const EVENT_TEXT_BYTES: usize = 2 * 1024;
/// Longest string of arguments that stands in its event; longer ones become blobs.
const ARGUMENT_BYTES: usize = 16 * 1024;
/// Largest structured result that stands in its event.
const EVENT_VALUE_BYTES: usize = 8 * 1024;

impl Context {
    /// Returns an event of this invocation.
    pub(crate) fn event(&self, run: Option<pentad_model::RunId>, body: EventBody) -> NewEvent {
        NewEvent {
            thread: self.thread.id,
            at: Timestamp::now(),
            caller: self.caller.clone(),
            call: Some(self.call),
            run: run.or(self.run),
            body,
        }
    }

    /// Returns events with the "called" before them that still waits; [`Self::opened`] says that they are written.
    pub(crate) fn with_opening(&self, events: impl IntoIterator<Item = NewEvent>) -> Vec<NewEvent> {
        let waiting = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.iter().cloned().chain(events).collect()
    }

    /// Notes that "called" is written.
    pub(crate) fn opened(&self) {
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Engine {
    /// Writes "called" before anything is judged or done. That of a `call` waits for what is recorded next, most often
    /// the start of its run: one transaction instead of two, and still before any effect.
    pub(crate) async fn record_called(
        &self,
        context: &Context,
        verb: Verb,
        arguments: &Value,
    ) -> Result<(), StoreError> {
        let arguments = self
            .journaled(self.parts.redactor.value(arguments.clone()))
            .await?;
        let cwd = context.workspace.cwd.display().to_string();
        let event = context.event(None, EventBody::Called { verb, arguments, cwd });
        *context.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        if verb == Verb::Call {
            return Ok(());
        }
        self.record(context, None).await
    }

    /// Writes events of class crash, after the "called" that may still wait.
    pub(crate) async fn record(
        &self,
        context: &Context,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Result<(), StoreError> {
        let events = context.with_opening(events);
        if events.is_empty() {
            return Ok(());
        }
        self.parts.store.append(events, Durability::Crash).await?;
        context.opened();
        Ok(())
    }

    /// Writes "returned".
    pub(crate) async fn record_returned(
        &self,
        context: &Context,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        let bytes = outcome
            .omitted
            .as_ref()
            .map_or(outcome.text.len() as u64, |o| o.total_bytes);
        let body = EventBody::Returned {
            status: outcome.status,
            text: prefix(&outcome.text, EVENT_TEXT_BYTES).to_owned(),
            bytes,
            blob: None,
            value: outcome
                .value
                .clone()
                .filter(|v| v.to_string().len() <= EVENT_VALUE_BYTES),
        };
        self.settle_with(context, Some(context.event(outcome.run, body)))
            .await
    }

    /// Writes the settlement that waits, if one does, together with `answer`.
    pub(crate) async fn settle_with(
        &self,
        context: &Context,
        answer: Option<NewEvent>,
    ) -> Result<(), StoreError> {
        let waiting = context
            .settlement
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((change, event)) = waiting else {
            return self.record(context, answer).await;
        };
        let events = std::iter::once(event).chain(answer.clone()).collect();
        match self
            .parts
            .store
            .change_run(change, events, Durability::Crash)
            .await
        {
            // Somebody settled the run meanwhile; what was answered is recorded all the same.
            Err(StoreError::Conflict(why)) => {
                tracing::warn!(call = %context.call, why, "a run was settled by somebody else");
                self.record(context, answer).await
            }
            done => done,
        }
    }

    /// Replaces long strings by the address of a blob, so that an event stays small and nothing is lost.
    pub(crate) async fn journaled(&self, value: Value) -> Result<Value, StoreError> {
        let mut long = Vec::new();
        collect_long(&value, &mut long);
        if long.is_empty() {
            return Ok(value);
        }
        let mut stored = Vec::with_capacity(long.len());
        for text in long {
            let blob = self.parts.store.put_blob(Bytes::from(text.clone())).await?;
            stored.push((text, json!({"blob": blob.hash, "bytes": blob.bytes})));
        }
        Ok(replace_long(value, &stored))
    }
}

fn collect_long(value: &Value, long: &mut Vec<String>) {
    match value {
        Value::String(text) if text.len() > ARGUMENT_BYTES => long.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|item| collect_long(item, long)),
        Value::Object(map) => map.values().for_each(|item| collect_long(item, long)),
        _ => {}
    }
}

fn replace_long(value: Value, stored: &[(String, Value)]) -> Value {
    match value {
        Value::String(text) if text.len() > ARGUMENT_BYTES => stored
            .iter()
            .find(|(known, _)| *known == text)
            .map_or(Value::String(text), |(_, blob)| blob.clone()),
        Value::Array(list) => Value::Array(list.into_iter().map(|item| replace_long(item, stored)).collect()),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, item)| (key, replace_long(item, stored)))
                .collect(),
        ),
        other => other,
    }
}
