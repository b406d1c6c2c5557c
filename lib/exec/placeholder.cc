#include "lib/exec/transport.h"
