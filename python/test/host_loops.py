"""A function in LLVM IR, run by the host on all elements of an array."""


def loop_over(source: str, result: str, call: str, *, parameters: str = "", begin: str = "") -> str:
    """`@all(from, to, n, ...)`, of n > 0 elements: `call` gives the result of `%x`.

    `begin` computes what the call needs of further `parameters`.
    """
    return f"""
define void @all(ptr %from, ptr %to, i64 %n{parameters and ", "}{parameters}) {{
entry:
  {begin}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %source = getelementptr {source}, ptr %from, i64 %i
  %target = getelementptr {result}, ptr %to, i64 %i
  %x = load {source}, ptr %source, align 1
  %result = {call}
  store {result} %result, ptr %target, align 1
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
