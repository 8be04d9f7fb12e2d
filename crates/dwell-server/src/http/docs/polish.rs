//! What the derived OpenAPI document does not say by itself.

use std::collections::BTreeSet;

use dwell_core::limits;
use dwell_wire::Code;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// Schemas whose fields may be null.
const NULLABLE: [&str; 1] = ["ChangeJob"];

/// Fields that are durations within limits of their own, in milliseconds.
const WITHIN: [(&str, u64, u64); 2] = [("ttr", limits::MIN_TTR, limits::MAX_TTR), ("wait", 0, limits::MAX_WAIT)];

/// Completes a derived document: problems as the answer to everything else, no nulls, no unknown fields in requests, and
/// the three forms of a put.
pub(super) fn polish(api: &OpenApi) -> Value {
    let mut document = serde_json::to_value(api).expect("a document is JSON");
    forms_of_a_put(&mut document);
    // The names that travel, which are not those of the variants.
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    document["components"]["schemas"]["Code"]["enum"] = json!(codes);
    for (name, schema) in schemas(&mut document) {
        for (field, least, most) in WITHIN {
            if let Some(duration) = schema.pointer_mut(&format!("/properties/{field}")) {
                duration["minimum"] = json!(least);
                duration["maximum"] = json!(most);
            }
        }
        if !NULLABLE.contains(&name.as_str()) {
            remove_nulls(schema);
        }
    }
    refuse_unknown_fields(&mut document);
    for operation in operations(&mut document) {
        operation.entry("responses").or_insert_with(|| json!({}))["default"] = problem();
    }
    for path in document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        remove_nulls(path);
    }
    widen(&mut document);
    document["components"]["securitySchemes"] = json!({"token": {"type": "http", "scheme": "bearer"}});
    document["security"] = json!([{}, {"token": []}]);
    document
}

fn schemas(document: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    document["components"]["schemas"].as_object_mut().into_iter().flat_map(Map::iter_mut)
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    let items = paths.filter_map(Value::as_object_mut);
    items.flat_map(|item| {
        item.iter_mut().filter(|(key, _)| *key != "parameters").filter_map(|(_, operation)| operation.as_object_mut())
    })
}

fn problem() -> Value {
    json!({
        "description": "What went wrong",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    })
}

/// The one derived put has all names; each form has its own.
fn forms_of_a_put(document: &mut Value) {
    let schemas = &mut document["components"]["schemas"];
    let whole = schemas["PutJob"].clone();
    let without = |names: &[&str]| {
        let mut form = whole.clone();
        for name in names {
            form["properties"].as_object_mut().and_then(|properties| properties.remove(*name));
        }
        // `delay` and `at` exclude each other, and so do the two bodies.
        form["not"] = json!({"anyOf": [{"required": ["delay", "at"]}, {"required": ["body", "body_base64"]}]});
        form
    };
    let (put, create, mut batch) = (without(&["topic", "id"]), without(&["topic"]), without(&[]));
    batch["required"] = json!(["topic"]);
    schemas["PutJob"] = put;
    schemas["CreateJob"] = create;
    schemas["BatchJob"] = batch;
    schemas["PutJobs"]["properties"]["jobs"]["items"] = json!({"$ref": "#/components/schemas/BatchJob"});
    schemas["ChangeJob"]["not"] =
        json!({"anyOf": [{"required": ["delay", "at"]}, {"required": ["body", "body_base64"]}]});
    let mut lease = schemas["LeaseRequest"].clone();
    lease["properties"].as_object_mut().and_then(|properties| properties.remove("topics"));
    lease.as_object_mut().and_then(|lease| lease.remove("required"));
    schemas["LeaseTopic"] = lease;
}

/// Fields that are optional here are absent, never null.
fn remove_nulls(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = &mut types[..] {
                    let only = only.take();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(options)) = object.get_mut("oneOf") {
                options.retain(|option| option.get("type") != Some(&json!("null")));
                if let [only] = &mut options[..]
                    && let Value::Object(only) = only.take()
                {
                    object.remove("oneOf");
                    object.extend(only);
                }
            }
            object.values_mut().for_each(remove_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// What is derived for a `u32` says that it fits 32 bits with a sign, which it does not.
fn widen(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("format") == Some(&json!("int32")) {
                object.insert("format".to_owned(), json!("int64"));
            }
            object.values_mut().for_each(widen);
        }
        Value::Array(values) => values.iter_mut().for_each(widen),
        _ => {}
    }
}

/// Every object that can be part of a request refuses fields it does not know.
fn refuse_unknown_fields(document: &mut Value) {
    let mut reached = BTreeSet::new();
    let bodies: Vec<Value> =
        operations(document).filter_map(|operation| operation.get("requestBody").cloned()).collect();
    let mut found: Vec<String> = bodies.iter().flat_map(references).collect();
    while let Some(name) = found.pop() {
        if reached.insert(name.clone()) {
            found.extend(references(&document["components"]["schemas"][&name]));
        }
    }
    for (name, schema) in schemas(document) {
        if reached.contains(name) && schema.get("properties").is_some() {
            schema["additionalProperties"] = json!(false);
        }
    }
}

/// The schemas that a value refers to.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => {
            let own = object.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
            own.map(str::to_owned).into_iter().chain(object.values().flat_map(references)).collect()
        }
        Value::Array(values) => values.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
