//! The signed state of a question that goes through the client and comes back with the repeated call.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use pentad_model::canonical::{sha256_hex, to_dag_cbor};
use pentad_model::{ApprovalId, Id, Invocation, Refusal, RefusalKind};
use rmcp::model::{RequestStateCodec, SealOptions};
use serde_json::json;
use sha2::Sha256;

/// Keeps what is signed here apart from everything else that the home's key is used for.
const PURPOSE: &[u8] = b"pentad/mcp/request-state";

type Read = dyn Fn() -> io::Result<Vec<u8>> + Send + Sync;

/// The secret that signs the state of open questions: the same for all faces of a home, so that an answer finds its
/// question whichever face it comes back to. Read when a question needs it first, and kept.
#[derive(Clone)]
pub struct StateKey(Arc<Source>);

struct Source {
    read: Box<Read>,
    seal: OnceLock<Seal>,
}

impl StateKey {
    /// Takes the key from `read`, which may fail as long as there is no home.
    pub fn read_by(read: impl Fn() -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Source {
            read: Box::new(read),
            seal: OnceLock::new(),
        }))
    }

    /// Returns what seals with this key; without a usable key, clients are asked elsewhere.
    pub(super) fn seal(&self) -> Option<&Seal> {
        if let Some(seal) = self.0.seal.get() {
            return Some(seal);
        }
        let key = match (self.0.read)() {
            Ok(key) => key,
            Err(error) => {
                tracing::warn!(%error, "the home's key cannot be read: clients are not asked for approvals");
                return None;
            }
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
        mac.update(PURPOSE);
        let derived = mac.finalize().into_bytes();
        let codec = RequestStateCodec::try_new(derived.to_vec()).ok()?;
        Some(self.0.seal.get_or_init(|| Seal(codec)))
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey")
    }
}

/// Seals and opens states.
#[derive(Debug)]
pub(super) struct Seal(RequestStateCodec);

impl Seal {
    /// Returns the state that names `approval`, good for `limit` and for a call in the same `context` only.
    pub(super) fn seal(&self, approval: ApprovalId, context: &[u8], limit: Duration) -> String {
        let options = SealOptions::new().associated_data(context).ttl(limit);
        self.0.seal_with(approval.0.as_bytes(), &options)
    }

    /// Returns the approval that a state names.
    ///
    /// # Errors
    /// Refuses what was altered, is too old, or was made for another client, thread or call: with one text, so that
    /// nobody learns from it which.
    pub(super) fn open(&self, state: &str, context: &[u8]) -> Result<ApprovalId, Refusal> {
        let opened = self.0.open_with(state, context).map_err(|error| {
            tracing::debug!(%error, "a request state was refused");
            unusable()
        })?;
        let bytes = <[u8; 16]>::try_from(opened.as_slice()).map_err(|_| unusable())?;
        Ok(ApprovalId(Id::from_bytes(bytes)))
    }
}

/// Returns the refusal of a state that is not good for this call.
pub(super) fn unusable() -> Refusal {
    let message = "This requestState is too old, was altered, or belongs to another client, thread or call. Nothing was done.";
    Refusal::new(RefusalKind::Forbidden, "requestState", message).next_step(
        "repeat the call without requestState and inputResponses; what must be approved is asked again",
    )
}

/// Returns what a state is bound to: who calls, in which thread, which verb, with which arguments.
pub(super) fn context_of(invocation: &Invocation) -> Vec<u8> {
    // The canonical form does not depend on the order of keys, which a client need not keep. Where there is none, the
    // text itself binds.
    let canonical =
        to_dag_cbor(&invocation.arguments).unwrap_or_else(|_| invocation.arguments.to_string().into_bytes());
    json!([
        invocation.caller,
        invocation.agent,
        invocation.thread,
        invocation.verb,
        sha256_hex(&canonical),
    ])
    .to_string()
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pentad_model::invocation::{ThreadChoice, Workspace};
    use pentad_model::{Actor, Timestamp, Verb};
    use proptest::prelude::*;

    use super::*;

    const AN_HOUR: Duration = Duration::from_secs(3_600);

    fn seal(byte: u8) -> Seal {
        let key = StateKey::read_by(move || Ok(vec![byte; 32]));
        Seal(key.seal().unwrap().0.clone())
    }

    fn invocation(text: &str) -> Invocation {
        Invocation {
            caller: Actor::Client("tester".parse().unwrap()).into(),
            agent: None,
            thread: ThreadChoice::Key("t".to_owned()),
            run: None,
            workspace: Workspace {
                cwd: "/work".into(),
                project_root: None,
                trusted: false,
            },
            verb: Verb::Call,
            arguments: json!({"tool": "x", "input": {"a": text, "b": 1.5}}),
            deadline: None,
            view_bytes: None,
        }
    }

    #[test]
    fn a_state_comes_back_through_any_face_of_the_home() {
        let (one, other) = (seal(1), seal(1));
        let id = ApprovalId::generate();
        let context = context_of(&invocation("x"));
        let state = one.seal(id, &context, AN_HOUR);
        assert_eq!(other.open(&state, &context), Ok(id));
        let reordered = Invocation {
            arguments: json!({"input": {"b": 1.5, "a": "x"}, "tool": "x"}),
            ..invocation("x")
        };
        assert_eq!(one.open(&state, &context_of(&reordered)), Ok(id));
    }

    #[test]
    fn foreign_and_late_states_are_refused_alike() {
        let id = ApprovalId::generate();
        let call = invocation("x");
        let state = seal(1).seal(id, &context_of(&call), AN_HOUR);
        let mut others = vec![invocation("y"); 5];
        others[1] = Invocation {
            verb: Verb::Delegate,
            ..call.clone()
        };
        others[2] = Invocation {
            thread: ThreadChoice::Key("u".to_owned()),
            ..call.clone()
        };
        others[3] = Invocation {
            caller: Actor::Client("stranger".parse().unwrap()).into(),
            ..call.clone()
        };
        others[4] = Invocation {
            agent: Some("helper".parse().unwrap()),
            ..call.clone()
        };
        for other in &others {
            assert_eq!(
                seal(1).open(&state, &context_of(other)),
                Err(unusable()),
                "{other:?}"
            );
        }
        assert_eq!(
            seal(2).open(&state, &context_of(&call)),
            Err(unusable()),
            "another home"
        );
        let late = seal(1).seal(id, &context_of(&call), Duration::ZERO);
        let now = Timestamp::now();
        while Timestamp::now() <= now {
            std::hint::spin_loop();
        }
        assert_eq!(seal(1).open(&late, &context_of(&call)), Err(unusable()));
        insta::assert_snapshot!("unusable", unusable().to_text());
    }

    #[test]
    fn a_home_without_a_key_seals_nothing_and_a_key_is_read_once() {
        let reads = AtomicUsize::new(0);
        let key = StateKey::read_by(move || match reads.fetch_add(1, Ordering::SeqCst) {
            0 => Err(io::Error::other("no home")),
            1 => Ok(vec![1; 32]),
            _ => panic!("read again"),
        });
        assert!(key.seal().is_none());
        assert!(key.seal().is_some(), "the home may be there by now");
        assert!(key.seal().is_some());
    }

    proptest! {
        #[test]
        fn an_altered_state_is_refused(at in 0_usize..90, byte in any::<u8>()) {
            let context = context_of(&invocation("x"));
            let state = seal(1).seal(ApprovalId::generate(), &context, AN_HOUR);
            let mut bytes = state.clone().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(altered) = String::from_utf8(bytes) && altered != state {
                prop_assert_eq!(seal(1).open(&altered, &context), Err(unusable()));
            }
        }

        #[test]
        fn any_text_is_refused(text in "\\PC{0,60}") {
            prop_assert_eq!(seal(1).open(&text, b""), Err(unusable()));
        }
    }
}
