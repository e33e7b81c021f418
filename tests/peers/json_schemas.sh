#!/bin/bash
# What --json prints, held against doc/formats/json. Needs Debian's
# python3-jsonschema; 77 without.
/usr/bin/python3 -c 'import jsonschema' 2>/dev/null || {
    echo "json_schemas: no python3-jsonschema: skipped"
    exit 77
}
exec /usr/bin/python3 "$(dirname "$0")/json_schemas.py" "$1"
