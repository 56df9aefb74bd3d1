// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Gives a program's divisions BPF's result for a divisor of 0, where x86 raises an exception: the
//! quotient is 0, and the remainder is the dividend. Schedulers rely on it.

use std::fmt::Write as _;

/// Returns the compiler's assembly with a test before each division.
pub(crate) fn as_bpf_divides(assembly: &str) -> String {
    let mut text = String::with_capacity(assembly.len());
    for (number, line) in assembly.lines().enumerate() {
        match division(line) {
            Some((size, divisor)) => {
                let by_zero = match size {
                    'b' => "movb %al, %ah\n\tmovb $0, %al",
                    'w' => "movw %ax, %dx\n\txorl %eax, %eax",
                    'l' => "movl %eax, %edx\n\txorl %eax, %eax",
                    _ => "movq %rax, %rdx\n\txorl %eax, %eax",
                };
                writeln!(
                    text,
                    "\tcmp{size} $0, {divisor}\n\tjne .Lkhost_divides_{number}\n\t{by_zero}\n\
                     \tjmp .Lkhost_divided_{number}\n.Lkhost_divides_{number}:\n{line}\n\
                     .Lkhost_divided_{number}:",
                )
            }
            None => writeln!(text, "{line}"),
        }
        .expect("a String");
    }
    text
}

/// Returns the size and the divisor of a division.
fn division(line: &str) -> Option<(char, &str)> {
    let (name, divisor) = line.trim().split_once(['\t', ' '])?;
    let size = name.strip_prefix("idiv").or_else(|| name.strip_prefix("div"))?;
    let mut letters = size.chars();
    let size = letters.next().filter(|size| "bwlq".contains(*size))?;
    letters.next().is_none().then(|| (size, divisor.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_of_integers_alone_change() {
        let text = "\tmovl\t%edi, %eax\n\tcltd\n\tidivl\t8(%rsp)\n\tdivsd\t%xmm0, %xmm1\n\tret\n";
        let changed = as_bpf_divides(text);
        let expected = "\tmovl\t%edi, %eax\n\tcltd\n\tcmpl $0, 8(%rsp)\n\
                        \tjne .Lkhost_divides_2\n\tmovl %eax, %edx\n\txorl %eax, %eax\n\
                        \tjmp .Lkhost_divided_2\n.Lkhost_divides_2:\n\tidivl\t8(%rsp)\n\
                        .Lkhost_divided_2:\n\tdivsd\t%xmm0, %xmm1\n\tret\n";
        assert_eq!(changed, expected);
    }
}
