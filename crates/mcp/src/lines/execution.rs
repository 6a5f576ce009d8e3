//! Keeps what a list of tools says about their execution (revision 2025-11-25): rmcp's types leave it out.

use serde_json::{Value, json};

/// Where it stands afterwards: in a tool's `_meta`, which the types keep.
pub const EXECUTION_KEY: &str = "pentad/execution";
/// What a line with something to keep contains.
const SIGN: &str = "\"taskSupport\"";

/// Returns a line with the `execution` of each listed tool copied into its `_meta`, if it has any.
pub fn kept(line: &[u8]) -> Option<Vec<u8>> {
    if !std::str::from_utf8(line).ok()?.contains(SIGN) {
        return None;
    }
    let mut message: Value = serde_json::from_slice(line).ok()?;
    let tools = message.pointer_mut("/result/tools")?.as_array_mut()?;
    for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
        let Some(execution) = tool.get("execution").cloned() else {
            continue;
        };
        let meta = tool.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(EXECUTION_KEY.to_owned(), execution);
        }
    }
    serde_json::to_vec(&message).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_of_tools_are_touched() {
        let line = br#"{"jsonrpc":"2.0","id":1,"result":{"tools":[
            {"name":"a","execution":{"taskSupport":"required"}},{"name":"b","_meta":{"x":1}},7]}}"#;
        let message: Value = serde_json::from_slice(&kept(line).unwrap()).unwrap();
        let tools = &message["result"]["tools"];
        assert_eq!(
            tools[0]["_meta"][EXECUTION_KEY],
            json!({"taskSupport": "required"})
        );
        assert_eq!(tools[1]["_meta"], json!({"x": 1}));
        let text = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"taskSupport"}]}}"#;
        assert_eq!(kept(text), None);
        let structured =
            br#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"taskSupport":"required"}}}"#;
        assert_eq!(kept(structured), None);
    }
}
