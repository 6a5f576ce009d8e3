//! The official Rust client answers questions, in both ways of asking.

use std::sync::Arc;

use pentad_mcp::{FaceOptions, LazyVerbs, serve};
use pentad_program::Verbs;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorData, Implementation, ProtocolVersion, ReadResourceRequestParams,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::mpsc;

use crate::support::{Obedient, options, state_key};

/// A person who says yes for now.
struct Agreeable;

impl ClientHandler for Agreeable {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("no form: {request:?}");
        };
        assert!(message.contains("> read file:/etc/hosts\\u{202e}"), "{message}");
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"decision": "once"})))
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::builder().enable_elicitation().build(),
            Implementation::new("agreeable", "1.0.0"),
        )
    }
}

async fn connect(mode: ClientLifecycleMode) -> RunningService<RoleClient, Agreeable> {
    let (started, mut heard) = mpsc::unbounded_channel();
    let verbs = Obedient {
        seen: Default::default(),
        canceled: Notify::new(),
        started,
        release: Notify::new(),
    };
    tokio::spawn(async move { while heard.recv().await.is_some() {} });
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    let options = FaceOptions {
        state_key: Some(state_key(1)),
        ..options()
    };
    let lazy = LazyVerbs::ready(Arc::new(verbs) as Arc<dyn Verbs>);
    tokio::spawn(serve(lazy, options, input, output));
    Agreeable.serve_with_lifecycle(ours, mode).await.unwrap()
}

#[tokio::test]
async fn the_official_client_answers_in_both_revisions() {
    let discover = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    for mode in [ClientLifecycleMode::Initialize, discover] {
        let client = connect(mode).await;
        let arguments = json!({"address": "ask"}).as_object().unwrap().clone();
        let called = client
            .call_tool(CallToolRequestParams::new("read").with_arguments(arguments))
            .await
            .unwrap();
        let called = serde_json::to_value(&called).unwrap();
        assert_eq!(called["content"][0]["text"], r#"{"granted":"once"}"#, "{called}");
        let read = client
            .read_resource(ReadResourceRequestParams::new("pentad:ask"))
            .await
            .unwrap();
        let read = serde_json::to_value(&read).unwrap();
        assert_eq!(read["contents"][0]["text"], r#"{"granted":"once"}"#, "{read}");
        let first = client.list_all_resources().await.unwrap();
        let seen = client
            .read_resource(ReadResourceRequestParams::new(first[0].uri.clone()))
            .await
            .unwrap();
        assert_eq!(seen.contents.len(), 1);
        client.cancel().await.unwrap();
    }
}
