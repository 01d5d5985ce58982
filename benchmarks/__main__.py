"""All benchmarks, one after another: `make bench`."""

from benchmarks import (
    compile_time,
    first_launch,
    launch_cost,
    loops,
    matmul,
    sanitizer_cost,
    simulator_speed,
    softmax,
)


def main() -> None:
    compile_time.main([])
    first_launch.main([])
    loops.main([])
    launch_cost.main([])
    matmul.main()
    softmax.main()
    simulator_speed.main()
    sanitizer_cost.main()


if __name__ == "__main__":
    main()
