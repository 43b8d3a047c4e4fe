//! SARIF 2.1.0, the format of results that GitHub's code scanning and editors show.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

/// The folder that paths in SARIF and annotations are relative to: that of the repository.
pub(crate) struct Root(pub(crate) PathBuf);

impl Root {
    /// Returns the innermost folder around the current one that has `.git`, else that of
    /// `GITHUB_WORKSPACE`, else the current folder.
    pub(crate) fn find() -> Self {
        let here = env::current_dir().unwrap_or_default();
        let git = here.ancestors().find(|folder| folder.join(".git").exists());
        let given = env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
        let given = given.filter(|folder| folder.is_dir());
        let root = git.map(Path::to_owned).or(given).unwrap_or(here);
        Self(fs::canonicalize(&root).unwrap_or(root))
    }

    /// Returns the path of a frame's file relative to the folder, if it is within.
    pub(crate) fn relative<'a>(&self, frame: &'a Value) -> Option<&'a Path> {
        self.inside(Path::new(frame["file"].as_str()?))
    }

    fn inside<'a>(&self, file: &'a Path) -> Option<&'a Path> {
        let inside = file.strip_prefix(&self.0).ok();
        inside.filter(|path| !path.as_os_str().is_empty())
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn list(value: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the document of a run with this entry in the list of invocations. The results have the
/// `properties`; those without a place are at the `program`.
pub(crate) fn document(
    problems: &[Value],
    (invocation, properties): (Value, &Value),
    program: &Path,
    root: &Root,
) -> Value {
    let mut kinds: Vec<&Value> = problems.iter().map(|problem| &problem["kind"]).collect();
    kinds.sort_by_key(|kind| text(kind));
    kinds.dedup();
    let rules = kinds.iter().map(|kind| {
        let text = json!({ "text": kind });
        json!({ "id": kind, "name": kind, "shortDescription": text, "fullDescription": text })
    });
    let results = problems.iter().map(|problem| {
        let places = list(&problem["places"]);
        let mut locations: Vec<_> = places.map(|place| location(place, 0, root)).collect();
        if locations.is_empty() {
            // GitHub takes no result without a place.
            let mut location = json!({ "message": { "text": "the program" } });
            location["physicalLocation"]["artifactLocation"] = artifact(program, root);
            locations.push(location);
        }
        let related = locations.split_off(1);
        let mut result = json!({
            "ruleId": problem["kind"],
            "ruleIndex": kinds.iter().position(|kind| **kind == problem["kind"]),
            "level": problem["severity"],
            "message": { "text": problem["text"] },
            "locations": locations,
            "relatedLocations": related,
            "occurrenceCount": problem["count"].as_u64().unwrap_or(1),
            "properties": properties,
        });
        // Of the two accesses the earlier one is the last.
        let accesses = list(&problem["places"]).filter(|place| place["access"] == true);
        let flows: Vec<_> = accesses.rev().map(|place| flow(place, root)).collect();
        if !flows.is_empty() {
            result["codeFlows"] = json!([{ "threadFlows": flows }]);
        }
        result
    });
    let folder = format!("file://{}/", encoded(&root.0).trim_end_matches('/'));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "millstream",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules.collect::<Vec<_>>(),
            } },
            "invocations": [invocation],
            "originalUriBaseIds": { "SRCROOT": { "uri": folder } },
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

/// Returns the calls that lead to an access, the outermost first.
fn flow(place: &Value, root: &Root) -> Value {
    let steps = (0..list(&place["frames"]).count()).rev();
    let steps = steps.map(|frame| json!({ "location": location(place, frame, root) }));
    json!({ "locations": steps.collect::<Vec<_>>() })
}

/// Returns the location of a frame of a place, of which the first is the innermost.
fn location(place: &Value, frame: usize, root: &Root) -> Value {
    let what = [text(&place["what"]), "calls"][frame.min(1)];
    let mut location = json!({ "message": { "text": what } });
    let frame = &place["frames"][frame];
    if let Some(file) = frame["file"].as_str() {
        location["physicalLocation"]["artifactLocation"] = artifact(Path::new(file), root);
        if frame["line"] != 0 {
            location["physicalLocation"]["region"] = json!({ "startLine": frame["line"] });
        }
    }
    let name = text(&frame["function"]);
    if !name.is_empty() {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": name, "kind": "function" }]);
    }
    location
}

fn artifact(file: &Path, root: &Root) -> Value {
    match root.inside(file) {
        Some(file) => json!({ "uri": encoded(file), "uriBaseId": "SRCROOT" }),
        None if file.is_absolute() => json!({ "uri": format!("file://{}", encoded(file)) }),
        None => json!({ "uri": encoded(file) }),
    }
}

/// Returns a path as a URI has it.
fn encoded(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let bytes = bytes.map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) => {
            char::from(*byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    bytes.collect()
}
