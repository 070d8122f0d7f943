"""The training of README's first lines, as a person starts it: compiled as it is shipped, which most tests are not.

python -m tests.training.minute_run OUT   # prints the seconds that it took, and saves the model
"""

import sys
import time

from compile_il.training.fit import fit


class Stopwatch:
    """Seconds since it was made, less what others took: the time on the clock, or that of this process if it is less.

    Where other processes wait for the same cores, as other tests do, the clock counts their time too; where there are
    more cores than one, the time of the process counts each of them.
    """

    def __init__(self) -> None:
        self._clock, self._process = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        return min(time.perf_counter() - self._clock, time.process_time() - self._process)


if __name__ == "__main__":
    watch = Stopwatch()
    model = fit("grid-pickup", num_iterations=400)
    print(watch.seconds)
    model.save(sys.argv[1])
