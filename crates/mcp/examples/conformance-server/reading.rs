//! Resources and prompts.

use rmcp::ErrorData;
use rmcp::model::{GetPromptRequestParams, GetPromptResponse, GetPromptResult, ReadResourceResult};
use serde_json::{Value, json};

use crate::answers::{PNG, complete};
use crate::rounds;

pub fn resources() -> Value {
    json!({"resources": [
        {"uri": "test://static-text", "name": "static-text", "description": "A text.", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "static-binary", "description": "A picture.", "mimeType": "image/png"},
        {"uri": "test://watched-resource", "name": "watched-resource", "description": "One to watch.", "mimeType": "text/plain"},
    ]})
}

pub fn templates() -> Value {
    json!({"resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "template",
        "description": "Data by id.", "mimeType": "application/json"}]})
}

pub fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let templated = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    let content = match (uri, templated) {
        (_, Some(id)) => {
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
            json!({"uri": uri, "mimeType": "application/json", "text": text})
        }
        ("test://static-text", _) => json!({"uri": uri, "mimeType": "text/plain",
            "text": "This is the content of the static text resource."}),
        ("test://watched-resource", _) => json!({"uri": uri, "mimeType": "text/plain", "text": "Watched."}),
        ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        _ => {
            let about = Some(json!({"uri": uri}));
            return Err(ErrorData::resource_not_found("Resource not found", about));
        }
    };
    complete(json!({"contents": [content]}))
}

pub fn prompts() -> Value {
    let required = |name: &str, about: &str| json!({"name": name, "description": about, "required": true});
    json!({"prompts": [
        {"name": "test_simple_prompt", "description": "A text."},
        {"name": "test_prompt_with_arguments", "description": "A text with two words in it.",
            "arguments": [required("arg1", "First test argument"), required("arg2", "Second test argument")]},
        {"name": "test_prompt_with_embedded_resource", "description": "A resource and a text.",
            "arguments": [required("resourceUri", "URI of the resource to embed")]},
        {"name": "test_prompt_with_image", "description": "A picture and a text."},
        {"name": "test_input_required_result_prompt", "description": "Asks before it answers."},
    ]})
}

pub fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let arguments = json!(request.arguments);
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let text = |text: &str| json!({"type": "text", "text": text});
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![text(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))],
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {"uri": argument("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing."}}),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => return rounds::prompt(request),
        other => {
            return Err(ErrorData::invalid_params(
                format!("There is no prompt {other}."),
                None,
            ));
        }
    };
    let messages: Vec<Value> = contents
        .into_iter()
        .map(|content| json!({"role": "user", "content": content}))
        .collect();
    let result: GetPromptResult = complete(json!({"messages": messages}))?;
    Ok(result.into())
}
