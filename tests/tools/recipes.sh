#!/bin/bash
# Recipes that cannot be tried here: the syntax, and that they are of this
# version and know the options that CMake knows.
cd "$(dirname "$0")/../.." || exit 5
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
complain() { echo "$*"; bad=1; }
version=$(sed -n 's/^project(paradl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
python3 - >"$tmp/spack" <<'PY' || complain "packaging/spack/package.py: Spack would not take it"
# with as much of Spack as it asks for
import os
import re
import sys
import types

variants, needs, installed = set(), [], []


class CMakePackage:
    prefix = types.SimpleNamespace(lib="/prefix/lib")
    spec = types.SimpleNamespace(satisfies=lambda what: known(what))

    def define(self, name, value):
        return f"{name}={value}"

    def define_from_variant(self, name, variant):
        return f"{name}={known('+' + variant)}"


def known(condition):
    for name in re.findall(r"[+~](\w+)", condition or ""):
        if name not in variants:
            sys.exit(f"packaging/spack/package.py: no variant {name}")
    return True


spack = types.ModuleType("spack.package")
vars(spack).update(
    version=lambda *a, **k: None, license=lambda name: None,
    generator=lambda name: None, join_path=os.path.join,
    python_platlib="/python", run_after=lambda phase: lambda f: f,
    variant=lambda name, default, description: variants.add(name),
    depends_on=lambda spec, type=None, when=None: needs.append((spec, when)),
    extends=lambda spec, type=None, when=None: needs.append((spec, when)),
    install_tree=lambda source, to: installed.append(source))
cmake = types.ModuleType("cmake")
cmake.CMakePackage = CMakePackage
sys.modules.update({
    "spack": types.ModuleType("spack"), "spack.package": spack,
    "spack_repo.builtin.build_systems.cmake": cmake,
    **{"spack_repo" + part: types.ModuleType("x")
       for part in ("", ".builtin", ".builtin.build_systems")}})
recipe = {}
exec(compile(open("packaging/spack/package.py").read(), "package.py", "exec"), recipe)
for _, when in needs:
    known(when)
package = recipe["Paradl"]()
print("\n".join(package.cmake_args()))
package.install_python()
package.setup_run_environment(types.SimpleNamespace(set=lambda name, value: None))
for folder in installed:
    if not os.path.isdir(folder):
        sys.exit(f"packaging/spack/package.py: no {folder}")
PY
/usr/bin/python3 - <<'PY' || complain "packaging/conda/meta.yaml: not readable"
import re
import sys
try:
    import yaml
except ImportError:
    sys.exit(print("recipes: no python3-yaml: conda's is not read"))
text = open("packaging/conda/meta.yaml").read()
text = re.sub(r"{%.*?%}", "", text)                 # as conda sees it
text = re.sub(r"{{\s*(.*?)\s*}}", lambda m: re.sub(r"\W", "_", m[1]), text)
found = yaml.safe_load(text)
for part, names in (("build", ("script", "number")), ("package", ("name", "version")),
                    ("requirements", ("build", "host", "run")), ("source", ("path",))):
    for name in names:
        if name not in found.get(part, {}):
            sys.exit(f"packaging/conda/meta.yaml: no {part}/{name}")
PY
grep -q "set version = \"$version\"" packaging/conda/meta.yaml ||
    complain "packaging/conda/meta.yaml is not of $version"
grep -q "paradl-$version.tar.gz" packaging/spack/package.py ||
    complain "packaging/spack/package.py is not of $version"
grep -q "^paradl ($version-" debian/changelog ||
    complain "debian/changelog is not of $version"
grep -q "\"$version\"" python/paradl/_version.py ||
    complain "python/paradl/_version.py is not of $version"
grep -q "^## $version" CHANGELOG.md || complain "CHANGELOG.md has no $version"
for option in $(grep -oh 'PDL_[A-Z_]*' "$tmp/spack" \
    packaging/conda/meta.yaml debian/rules tools/pep517.py | sort -u); do
    case $option in PDL_NINJA | PDL_WHEEL_BUILD | PDL_WHEEL_LIBRARY) continue ;; esac
    grep -rqE "(option|set)\($option[ )]" CMakeLists.txt cmake ||
        complain "CMake knows no $option"
done
for file in $(grep -o '/debs/\|tools/[a-z.]*\|packaging/[A-Za-z]*' packaging/Containerfile | grep -v debs); do
    [ -e "$file" ] || complain "packaging/Containerfile: no $file"
done
# a clone's history would ask for git, and a build folder is large
for name in .git build; do
    grep -qx "$name" .containerignore || complain ".containerignore: no $name"
done
[ $bad = 0 ] && echo "recipes: of $version, and readable"
exit $bad
