//! What a child run of a recipe is given: enough to execute it in another process.

use bytes::Bytes;
use pentad_model::step::Repeat;
use pentad_model::{Refusal, RefusalKind, ToolDocument};
use pentad_program::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Engine;

/// Inputs up to this size stand in the run's record.
const INLINE_BYTES: usize = 32 * 1024;
/// Largest input.
const MAX_BYTES: u64 = 16 << 20;

/// The input of the program `recipe`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecipeJob {
    /// The tool's full name.
    pub tool: String,
    /// The version that was judged; another one is not executed in its place.
    pub cid: String,
    /// What becomes of it when it is interrupted.
    pub repeat: Repeat,
    /// The tool's input, where it is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    /// The blob of a large input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Whether secret values stand masked in the input: whoever resumes the run does not have them.
    #[serde(default)]
    pub masked: bool,
}

impl RecipeJob {
    /// Returns the job of a judged call, as it stands in the journal.
    pub(crate) async fn of(
        engine: &Engine,
        document: &ToolDocument,
        input: &Map<String, Value>,
    ) -> Result<Self, StoreError> {
        let plain = Value::Object(input.clone());
        let shown = engine.parts.redactor.value(plain.clone());
        let masked = shown != plain;
        let text = shown.to_string();
        let (input, blob) = if text.len() <= INLINE_BYTES {
            (shown.as_object().cloned(), None)
        } else {
            let blob = engine.parts.store.put_blob(Bytes::from(text)).await?;
            (None, Some(blob.hash))
        };
        let trusted = document.trusted;
        let repeats = trusted.read_only == Some(true) || trusted.idempotent == Some(true);
        Ok(Self {
            tool: document.tool.to_string(),
            cid: document.cid().unwrap_or_default(),
            repeat: if repeats { Repeat::Safe } else { Repeat::Never },
            input,
            blob,
            masked,
        })
    }

    /// Returns the tool's input.
    pub(crate) async fn load(&self, store: &dyn Store) -> Result<Map<String, Value>, Refusal> {
        let refuse = |message: String| Refusal::new(RefusalKind::Conflict, self.tool.as_str(), message);
        if self.masked {
            // Whoever delegated it in this process had left the input itself.
            let message = "Its input had a secret value, which the journal does not keep.".to_owned();
            return Err(refuse(message).next_step("start it again"));
        }
        if let Some(input) = &self.input {
            return Ok(input.clone());
        }
        let Some(hash) = &self.blob else {
            return Ok(Map::new());
        };
        let bytes = store
            .blob(hash, MAX_BYTES)
            .await
            .map_err(|error| refuse(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| refuse(format!("Its kept input is no JSON: {error}.")))
    }
}
