//! Slurm's list of nodes, such as `node[01-04,7],login`.

/// Returns the first host of a list; `None` if the list is empty or not well formed.
pub(super) fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        let Some(at) = rest.find([',', '[', ']']) else {
            host.push_str(rest);
            break;
        };
        host.push_str(&rest[..at]);
        match &rest[at..=at] {
            "," => break,
            "[" => {
                let (numbers, after) = rest[at + 1..].split_once(']')?;
                let first = numbers.split([',', '-']).next()?;
                if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                host.push_str(first);
                rest = after;
            }
            _ => return None,
        }
    }
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_of_every_form_of_list() {
        for (list, expected) in [
            ("node7", Some("node7")),
            ("a,b", Some("a")),
            ("node[01-04,7],x", Some("node01")),
            ("x,node[01-04]", Some("x")),
            ("node[7]", Some("node7")),
            ("node[7,9-12]-ib", Some("node7-ib")),
            ("rack[2-3]node[010-012],y", Some("rack2node010")),
            (
                "gpu-a-[1,3].cluster.example",
                Some("gpu-a-1.cluster.example"),
            ),
            ("", None),
            (",a", None),
            ("node[01-04", None),
            ("node01]", None),
            ("node[]", None),
            ("node[a-b]", None),
        ] {
            assert_eq!(first_host(list).as_deref(), expected, "{list}");
        }
    }
}
