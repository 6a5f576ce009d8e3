//! From methods to the files beside this one.
// Subscribing to single resources and setting a log level are older revisions' way.
#![allow(deprecated)]

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::answers::{as_wire, complete, text};
use crate::changes::{Change, Changes};
use crate::rounds::States;
use crate::{answers, asking, catalogue, reading, rounds};

pub struct Fixture {
    changes: Changes,
    states: States,
}

impl Fixture {
    pub const fn new(changes: Changes, states: States) -> Self {
        Self { changes, states }
    }
}

type Paged = Option<PaginatedRequestParams>;
type Context = RequestContext<RoleServer>;

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_logging()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new(
            "pentad-conformance",
            env!("CARGO_PKG_VERSION"),
        ))
    }

    async fn list_tools(&self, _: Paged, _: Context) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(catalogue::tools().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        catalogue::tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let capabilities = context.client_capabilities().unwrap_or_default();
        let name = &*request.name;
        match name {
            "test_trigger_tool_change" => self.changes.tell(Change::Tools),
            "test_trigger_prompt_change" => self.changes.tell(Change::Prompts),
            "test_missing_capability" if capabilities.sampling.is_none() => {
                let mut missing = ClientCapabilities::default();
                missing.sampling = Some(as_wire(json!({}))?);
                return Err(ErrorData::missing_required_client_capability(missing));
            }
            // Nobody asked for a log: no level came with the request.
            "test_missing_capability" | "test_logging_tool" => {}
            _ => {
                if let Some(answer) = rounds::answer(&request, &capabilities, &self.states) {
                    return answer;
                }
                if let Some(answer) = answers::answer(name) {
                    return answer.map(Into::into);
                }
                let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
                return match asking::answer(name, &arguments, &context).await {
                    Some(answer) => answer.map(Into::into),
                    None => Err(ErrorData::invalid_params(
                        format!("There is no tool {name}."),
                        None,
                    )),
                };
            }
        }
        text("Done.").map(Into::into)
    }

    async fn list_resources(&self, _: Paged, _: Context) -> Result<ListResourcesResult, ErrorData> {
        complete(reading::resources())
    }

    async fn list_resource_templates(
        &self,
        _: Paged,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        complete(reading::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        reading::read(&request.uri).map(Into::into)
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(&self, _: Paged, _: Context) -> Result<ListPromptsResult, ErrorData> {
        complete(reading::prompts())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        reading::prompt(&request)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let begun = request.argument.value;
        let values: Vec<&str> = ["paris", "park", "party"]
            .into_iter()
            .filter(|word| word.starts_with(&begun))
            .collect();
        complete(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}}))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.changes.pass_on(&context).await
    }
}
